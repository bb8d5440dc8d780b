"""When workers can be given full batches, against a plain list of all releases."""

from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from adaptive_batching.core.policies.cork.admission_control import _Releases

QUARTERS = st.integers(0, 400).map(lambda number: number / 4)  # sums of which are exact
RELEASES = st.builds(
    _Releases, st.lists(QUARTERS, min_size=1, max_size=5), st.integers(1, 40).map(lambda n: n / 4)
)


def listed(releases: _Releases, until: float) -> list[float]:
    """All releases until an instant."""
    rounds = range(int(until / releases.cycle) + 1)
    every = [free + number * releases.cycle for free in releases.free_at for number in rounds]
    return sorted(each for each in every if each <= until)


@given(RELEASES, QUARTERS)
def test_releases_until_an_instant(releases: _Releases, until: float) -> None:
    """They are counted, and the last is known."""
    known = listed(releases, until)
    assert releases.number(until) == len(known)
    assert releases.last(until) == max(known, default=float("-inf"))


@given(RELEASES, QUARTERS)
def test_the_next_release_is_after_the_instant(releases: _Releases, instant: float) -> None:
    """One at the instant itself is not the next."""
    later = listed(releases, instant + 200.0)
    assert releases.next(instant) == min(each for each in later if each > instant)


@given(RELEASES, QUARTERS)
def test_from_the_last_release_back(releases: _Releases, until: float) -> None:
    """As many remain from each as the list has, the first of which is the last."""
    known, cycle = listed(releases, until), releases.cycle
    assume(known)
    assume(len({free % cycle for free in releases.free_at}) == len(releases.free_at))  # no ties
    found = list(releases.from_the_last(until))
    assert found[0] == (1, known[-1])
    for rest, release in found:
        assert rest == sum(each >= release for each in known)


@given(
    st.lists(st.floats(1000.0, 1000.2), min_size=1, max_size=4),
    st.floats(0.005, 0.02),
    st.floats(1000.0, 1000.3),
)
def test_no_release_is_counted_twice_because_of_rounding(
    free_at: list[float], cycle: float, until: float
) -> None:
    """No more remain than there are, even where sums of instants and durations are rounded."""
    assume(min(free_at) <= until)
    rows = [(Fraction(free), Fraction(cycle)) for free in free_at if free <= until]
    for rest, release in _Releases(free_at, cycle).from_the_last(until):
        since = Fraction(release) - Fraction(1, 10**9)  # itself rounded
        exact = [
            (Fraction(until) - free) // cycle - max(-1, (since - free) // cycle)
            for free, cycle in rows
        ]
        assert rest <= sum(exact)
