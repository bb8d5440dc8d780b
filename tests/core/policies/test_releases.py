"""When workers can be given full batches, against a plain list of all releases."""

from hypothesis import assume, given
from hypothesis import strategies as st

from adaptive_batching.core.policies.cork.admission_control import _Releases

QUARTERS = st.integers(0, 400).map(lambda number: number / 4)  # sums of which are exact
RELEASES = st.builds(
    _Releases, st.lists(QUARTERS, min_size=1, max_size=5), st.integers(1, 40).map(lambda n: n / 4)
)


def listed(releases: _Releases, until: float) -> list[float]:
    """Each of them until an instant."""
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
