"""A simulation asks for fewer searches for cycles, and leaves the collector as it was."""

import gc
from threading import Barrier, Thread

import numpy as np
import pytest

from adaptive_batching.core import Limits, Scheduler, make_policy
from adaptive_batching.simulation import simulate
from adaptive_batching.simulation.kernel.collection import collecting_rarely


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 11, 12)
    yield
    gc.set_threshold(*before)


def thresholds_seen(fault=None):
    """Of a simulation whose workers look, and may raise."""
    seen = []

    def service(size):
        seen.append(gc.get_threshold())
        if fault:
            raise fault
        return 1e-3

    simulate(np.zeros(1), Scheduler(make_policy("greedy"), Limits()), service)
    return seen


def test_rarely_while_it_runs_and_as_usual_afterwards():
    """Only the young generation's threshold is raised."""
    assert thresholds_seen() == [(50_000, 11, 12)]
    assert gc.get_threshold() == (700, 11, 12)


def test_a_simulation_that_fails():
    """The threshold is put back as well."""
    with pytest.raises(ZeroDivisionError):
        thresholds_seen(ZeroDivisionError())
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("young", [0, 1_000_000])
def test_who_wants_it_rarer_still_is_respected(young):
    """0 is Python's way to say never."""
    gc.set_threshold(young, 11, 12)
    assert thresholds_seen() == [(young, 11, 12)]
    assert gc.get_threshold() == (young, 11, 12)


def test_simulations_that_overlap_in_threads():
    """The first to end leaves the threshold raised for the other; the last puts it back."""
    both_in, one_out = Barrier(2), Barrier(2)
    seen = []

    def first():
        with collecting_rarely:
            both_in.wait(5)
        one_out.wait(5)

    def second():
        with collecting_rarely:
            both_in.wait(5)
            one_out.wait(5)
            seen.append(gc.get_threshold()[0])

    threads = [Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert seen == [50_000]
    assert gc.get_threshold() == (700, 11, 12)
