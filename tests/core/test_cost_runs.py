"""Which groups of jobs share a batch, where batches are padded to their costliest item."""

from itertools import combinations
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core.queues.cost_runs import Run, best_runs


def seconds(
    groups: list[tuple[float, int]], runs: list[Run], fixed: float, limits: list[int]
) -> float:
    """How long a worker is busy with the batches of some runs, at a second for each cost."""
    return sum(
        fixed * ceil(run.items / limits[run.last]) + run.items * groups[run.last][0] for run in runs
    )


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(1, 40)), min_size=1, max_size=7),
    st.integers(0, 3000),
    st.integers(1, 64),
)
def test_no_other_division_into_neighbours_is_shorter(
    drawn: list[tuple[int, int]], fixed: int, limit: int
) -> None:
    """Dynamic programming finds what a look at all divisions finds."""
    groups = [(float(cost), items) for cost, items in sorted(dict(drawn).items())]
    limits = [limit] * len(groups)
    runs = best_runs(groups, float(fixed), 1.0, limits)
    assert [run.first for run in runs] == [0, *(run.last + 1 for run in runs[:-1])]
    assert sum(run.items for run in runs) == sum(items for _, items in groups)
    best = min(
        seconds(groups, _divided(groups, cuts, limits), fixed, limits)
        for number in range(len(groups))
        for cuts in combinations(range(1, len(groups)), number)
    )
    assert seconds(groups, runs, fixed, limits) <= best * (1 + 1e-9)


def _divided(
    groups: list[tuple[float, int]], cuts: tuple[int, ...], limits: list[int]
) -> list[Run]:
    divided = []
    for first, end in zip([0, *cuts], [*cuts, len(groups)], strict=True):
        items = sum(items for _, items in groups[first:end])
        divided.append(Run(first, end - 1, items, groups[end - 1][0], limits[end - 1]))
    return divided


def test_few_jobs_share_a_batch_and_many_are_divided() -> None:
    """What is padded is cheap beside the fixed part of another batch, until it adds up."""
    few = best_runs([(10.0, 1), (400.0, 1)], 4e-3, 1.2e-6, [64, 64])
    many = best_runs([(10.0, 60), (400.0, 60)], 4e-3, 1.2e-6, [64, 64])
    assert [run.items for run in few] == [2]
    assert [run.items for run in many] == [60, 60]
