"""Whether durations form steps: the model pads batches to a few sizes without saying so."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf, log
from typing import NamedTuple

from adaptive_batching.core.estimators.medians import median

_FIRST_LOOK = 128  # batches; then after twice as many each time: a look takes some milliseconds
_REMEMBERED = 512  # batches
_SURE = log(1e5)  # of the likelihood ratio, shared out to some ten looks: one in 10,000 is wrong
_PART = 0.9  # of the error of the best curve without steps; what gains less is not worth a word
_FINER = 0.95  # of the error of a coarser rule: any finer one fits a little better
_SAME = 0.02  # relative; two steps that differ by less are one
_EVEN = 0.005  # relative; no clock and no model repeats better
_NOTHING = 1e-9  # of a weight: where no batch was seen

Batches = Sequence[tuple[int, float]]
"""Items and seconds of each."""
Rule = Callable[[int], tuple[int, int]]
"""The edges of the step that a size belongs to: it is larger than the first, and is padded to the
second."""


class Steps(NamedTuple):
    """What durations look like.

    Attributes:
        sizes: What batches seem to be padded to, up to the step of the largest that was seen
            (items).
        smaller: A size that was run.
        larger: The one of `sizes` that takes as long.
    """

    sizes: tuple[int, ...]
    smaller: int
    larger: int

    def __str__(self) -> str:
        subject = "a single item takes" if self.smaller == 1 else f"{self.smaller} items take"
        return f"{subject} as long as {self.larger}"

    @property
    def setting(self) -> str:
        """The sizes as a program or a file declares them."""
        return f"sizes=[{', '.join(map(str, self.sizes))}]"

    @property
    def option(self) -> str:
        """The sizes as a command declares them."""
        return f"--sizes {','.join(map(str, self.sizes))}"


class LatestBatches:
    """The last 512 batches, to be looked at after 128 of them, 256, 512 and so on."""

    __slots__ = ("_batches", "_newest", "_next_look")

    def __init__(self) -> None:
        self._batches = 0
        self._next_look = _FIRST_LOOK
        self._newest: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)

    def observe(self, size: int, duration: float) -> Batches:
        """Keep a batch of `size` items that took `duration` seconds.

        Returns:
            All that are kept, if it is time for `find_steps` to look at them; otherwise none.
        """
        if not duration > 0:
            return ()  # a clock that is too coarse says nothing of sizes
        self._batches += 1
        self._newest.append((size, duration))
        if self._batches < self._next_look:
            return ()
        self._next_look *= 2
        return tuple(self._newest)


def find_steps(batches: Batches) -> Steps | None:
    """The steps that durations of batches form beyond doubt, or None.

    Powers of two are tried, and multiples of 4, 8, 16, 32 and 64. Each has two curves with about
    as many parameters: one level for each step, and straight lines from step to step. Without steps
    the closest of all lines is closer than any levels. Levels are believed if the likelihood
    ratio is beyond doubt; the tenth of the batches that fit worst doesn't count: pauses happen.
    Levels must be closer in the older half and in the newer half too: a model that became slower,
    and has larger batches since then, has two levels without steps. More steps than batches are
    no few sizes.

    Args:
        batches: In order of time, with durations above 0; at least two.
    """
    half = len(batches) // 2
    fit = _closest(batches)
    sure = fit.are_levels and len(batches) * log(fit.lines / fit.levels) >= _SURE
    if not sure or not all(_closest(part).are_levels for part in (batches[:half], batches[half:])):
        return None
    merged = _merged(batches, fit.groups)
    larger = max(reversed(merged), key=lambda size: len(merged[size]))
    steps = tuple(islice(_steps(fit.rule, max(merged)), len(batches) + 1))
    if len(steps) > len(batches):
        return None
    sizes = tuple(size for size in steps if size in merged or size not in fit.groups)
    return Steps(sizes, merged[larger][0], larger)


class _Fit(NamedTuple):
    """The closest levels beside the closest lines.

    Attributes:
        lines: Error of the lines, relative.
        levels: Error of the levels; infinite if no step has two sizes.
        rule: Of the levels.
        groups: Sizes that were seen, by the step that they are padded to.
    """

    lines: float
    levels: float
    rule: Rule
    groups: Mapping[int, Sequence[int]]

    @property
    def are_levels(self) -> bool:
        """Whether levels are closer by more than luck gives."""
        return self.levels <= _PART * self.lines


def _closest(batches: Batches) -> _Fit:
    best = _Fit(inf, inf, _RULES[0], {})
    for rule in _RULES:
        best = best._replace(lines=min(best.lines, _error(batches, _lines(batches, rule))))
        groups = _grouped(batches, rule)
        error = _error(batches, _levels(batches, groups))
        shared = len(groups) > 1 and any(len(group) > 1 for group in groups.values())
        if shared and error < _FINER * best.levels:
            best = _Fit(best.lines, error, rule, groups)
    return best


def _error(batches: Batches, curve: Mapping[int, float]) -> float:
    """The mean error of a curve, relative, without the tenth of the batches that it fits worst."""
    errors = sorted(abs(seconds / curve[size] - 1.0) for size, seconds in batches)
    kept = errors[: len(errors) * 9 // 10]
    return max(sum(kept) / len(kept), _EVEN)


def _grouped(batches: Batches, rule: Rule) -> dict[int, list[int]]:
    """Sizes by the step that they would be padded to."""
    groups: dict[int, list[int]] = {}
    for size in sorted({size for size, _ in batches}):
        groups.setdefault(rule(size)[1], []).append(size)
    return groups


def _merged(batches: Batches, groups: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Groups without those that take as long as the next larger one, which has their sizes too."""
    levels, merged = _levels(batches, groups), dict[int, list[int]]()
    for size, group in sorted(groups.items(), reverse=True):
        above = min(merged, default=None)
        if above is not None and levels[group[0]] > (1.0 - _SAME) * levels[merged[above][0]]:
            merged[above] = [*group, *merged[above]]
        else:
            merged[size] = list(group)
    return dict(sorted(merged.items()))


def _levels(batches: Batches, groups: Mapping[int, Sequence[int]]) -> dict[int, float]:
    """Take the median duration of each group for all of its sizes."""
    levels = {}
    for group in groups.values():
        level = median(seconds for size, seconds in batches if size in group)
        levels.update(dict.fromkeys(group, level))
    return levels


def _lines(batches: Batches, rule: Rule) -> dict[int, float]:
    """Straight lines from edge to edge, laid again without the tenth that fits worst.

    Only the edges of steps with batches are laid: there are many others below a large size.
    """
    edges = sorted({edge for size, _ in batches for edge in rule(size)})
    curve = _least_squares(batches, batches, edges)
    ranked = sorted(batches, key=lambda batch: abs(batch[1] / curve[batch[0]] - 1.0))
    return _least_squares(ranked[: len(ranked) * 9 // 10], batches, edges)


def _least_squares(fitted: Batches, asked: Batches, edges: Sequence[int]) -> dict[int, float]:
    """Straight lines through some batches, for the sizes of others.

    Each size concerns the edges on its two sides only, so that the normal equations are tridiagonal
    and are solved from one end to the other (Thomas 1949).
    """
    places = {}
    for size in {size for size, _ in asked}:
        at = bisect_left(edges, size)
        places[size] = at, (size - edges[at - 1]) / (edges[at] - edges[at - 1])
    diagonal, beside = [_NOTHING] * len(edges), [0.0] * len(edges)
    right = [0.0] * len(edges)
    for size, seconds in fitted:
        at, share = places[size]
        diagonal[at - 1] += (1.0 - share) ** 2
        diagonal[at] += share**2
        beside[at] += share * (1.0 - share)
        right[at - 1] += (1.0 - share) * seconds
        right[at] += share * seconds
    for at in range(1, len(edges)):
        factor = beside[at] / diagonal[at - 1]
        diagonal[at] -= factor * beside[at]
        right[at] -= factor * right[at - 1]
    knots = [*right, 0.0]
    for at in range(len(edges) - 1, -1, -1):
        carried = beside[at + 1] * knots[at + 1] if at + 1 < len(edges) else 0.0
        knots[at] = (right[at] - carried) / max(diagonal[at], _NOTHING)
    return {
        size: max(knots[at] * share + knots[at - 1] * (1.0 - share), _NOTHING)
        for size, (at, share) in places.items()
    }


def _steps(rule: Rule, largest: int) -> Iterator[int]:
    size = 0
    while size < largest:
        size = rule(size + 1)[1]
        yield size


def _power_of_two(size: int) -> tuple[int, int]:
    padded = 1 << (size - 1).bit_length()
    return padded // 2, padded


def _multiple_of(step: int) -> Rule:
    def edges(size: int) -> tuple[int, int]:
        padded = -(-size // step) * step
        return padded - step, padded

    return edges


_RULES = (_power_of_two, *map(_multiple_of, (64, 32, 16, 8, 4)))  # the coarser first
