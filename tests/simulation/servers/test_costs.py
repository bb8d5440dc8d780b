"""How long batches take whose items don't cost the same."""

import pytest

from adaptive_batching.core import Costs, Job, Limits, Scheduler, make_policy
from adaptive_batching.simulation import Server, simulate
from adaptive_batching.simulation.servers.costs import CostSeconds
from adaptive_batching.simulation.servers.servers import parse_server

JOBS = [Job(0.0, 1, cost=3.0), Job(0.0, 2, cost=8.0)]


def test_padded():
    """Each item takes as long as the costliest one."""
    assert CostSeconds(0.5, padded=True)(JOBS) == 3 * 8.0 * 0.5


def test_summed():
    """The items take what they cost."""
    assert CostSeconds(0.5)(JOBS) == 11.0 * 0.5


def test_quadratic():
    """A padded item takes the square of the largest cost; others the squares of their own."""
    assert CostSeconds(0.0, 0.1, padded=True)(JOBS) == pytest.approx(3 * 64.0 * 0.1)
    assert CostSeconds(0.0, 0.1)(JOBS) == pytest.approx((9.0 + 2 * 16.0) * 0.1)


def test_filled_up():
    """Items that fill a batch up to an allowed size cost as those in it do."""
    assert CostSeconds(0.5, padded=True, sizes=(2, 4))(JOBS) == 4 * 8.0 * 0.5
    assert CostSeconds(0.5, sizes=(2, 4))(JOBS) == pytest.approx(11.0 * 0.5 * 4 / 3)


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("5ms+1ms+2us/token", Server(5e-3, 1e-3, costs=CostSeconds(2e-6))),
        ("5ms+2us/px", Server(5e-3, 0.0, costs=CostSeconds(2e-6))),
        ("5ms+1ns/token^2", Server(5e-3, 0.0, costs=CostSeconds(0.0, 1e-9))),
        ("5ms+1ms+2us/token+1ns/token^2", Server(5e-3, 1e-3, costs=CostSeconds(2e-6, 1e-9))),
    ],
)
def test_spelling(text, server):
    """A term by unit, one by its square, or both, after what a batch and an item take."""
    assert parse_server(text) == server


def test_costs_on_top_of_a_table():
    """The table says what a batch takes by its size."""
    server = parse_server("1:5ms,8:6ms+2us/token")
    assert server.costs == CostSeconds(2e-6)
    assert server.mean(8) == pytest.approx(6e-3)


@pytest.mark.parametrize(
    "text",
    ["5ms+2us/token+1us/token", "5ms+2us/token+1ns/px^2", "5ms+2us/", "2/token", "5ms+2us/t^3"],
)
def test_misspelling(text):
    """A term that is there twice, has another unit or none is refused."""
    with pytest.raises(ValueError, match="expected"):
        parse_server(text)


@pytest.mark.parametrize("costs", [None, Costs(padded=True)])
def test_what_the_scheduler_knows_changes_no_duration(costs):
    """A batch takes what its items cost, whether its scheduler was told or not."""
    server = Server(1.0, 0.0, costs=CostSeconds(0.5, padded=True))
    scheduler = Scheduler(make_policy("greedy"), Limits(costs=costs), 1)
    history = simulate([0.0, 0.0], scheduler, server.service(), costs=[1.0, 2.0])
    assert (
        sum(batch.duration for batch in history.batches)
        == {
            None: 1.0 + 2 * 2.0 * 0.5,
            Costs(padded=True): 1.0 + 2 * 2.0 * 0.5,
        }[costs]
    )
    assert [job.cost for job in history.jobs] == [1.0, 2.0]


def test_costs_and_late_loops():
    """A job that is noticed late costs what it costs."""
    server = Server(1.0, 0.0, costs=CostSeconds(1.0))
    scheduler = Scheduler(make_policy("greedy"), Limits(), 1)
    history = simulate([0.0], scheduler, server.service(), costs=[2.0], loop_delay=0.25)
    (job,) = history.jobs
    assert (job.cost, job.latency) == (2.0, 3.5)


def test_jitter_strikes_all_of_a_batch():
    """What costs add is as noisy as the rest: batches of nothing but cost differ."""
    server = Server(0.0, 0.0, jitter=0.3, costs=CostSeconds(1.0))
    scheduler = Scheduler(make_policy("greedy"), Limits(), 1)
    history = simulate([0.0, 10.0], scheduler, server.service(), costs=[1.0, 1.0])
    one, other = (batch.duration for batch in history.batches)
    assert one != pytest.approx(other)
