"""Policies by name, and what the simple ones do; Cork has a file of its own."""

from math import inf
from typing import Any

import pytest

from adaptive_batching.core import (
    BatchRecord,
    Job,
    JobOutcome,
    Limits,
    Outcome,
    Policy,
    Reason,
    Scheduler,
    make_policy,
)
from adaptive_batching.core.policies.aimd import AIMD
from adaptive_batching.core.policies.cork.cork import Cork
from adaptive_batching.core.policies.greedy import Greedy
from adaptive_batching.core.policies.window import Window
from adaptive_batching.simulation import History, simulate


def run(policy: Any, arrivals: list[float], workers: int = 1, **limits: Any) -> History:
    """Batches take a second, whatever their size."""
    return simulate(arrivals, Scheduler(make_policy(policy), Limits(**limits), workers), _second)


def _second(size: int) -> float:
    return 1.0


def releases(history: History) -> list[tuple[float, int, Reason]]:
    return [(batch.released, batch.size, batch.reason) for batch in history.batches]


def ended(size: int, duration: float, outcome: Outcome = Outcome.DONE) -> BatchRecord:
    return BatchRecord(0.0, duration, size, size, None, Reason.IDLE, outcome, 0.0, 0.0, 0)


# ----------------------------------------------------------------------------------------- greedy


def test_greedy_takes_what_waits() -> None:
    """A free worker takes all that waits, up to a full batch; it never waits itself."""
    history = run("greedy", [0.0, 0.2, 0.3, 0.4], max_batch_size=2)
    assert releases(history) == [
        (0.0, 1, Reason.IDLE),
        (1.0, 2, Reason.FULL),
        (2.0, 1, Reason.IDLE),
    ]


# ----------------------------------------------------------------------------------------- window


def test_window_waits_for_its_time() -> None:
    """A lone job waits for company until its time is over, to the last bit."""
    history = run("window:250ms", [0.1, 0.2])
    assert releases(history) == [(0.1 + 0.25, 2, Reason.TIMEOUT)]


def test_window_releases_a_full_batch_at_once() -> None:
    """The third job makes it full; the fourth begins a window of its own."""
    history = run("window:250ms", [0.0, 0.1, 0.2, 0.3], workers=2, max_batch_size=3)
    assert releases(history) == [(0.2, 3, Reason.FULL), (0.3 + 0.25, 1, Reason.TIMEOUT)]


def test_window_measures_from_the_arrival() -> None:
    """A job that waited for a worker longer than its window leaves as soon as one is free."""
    history = run("window:250ms", [0.0, 0.3])
    assert releases(history) == [(0.25, 1, Reason.TIMEOUT), (1.25, 1, Reason.TIMEOUT)]


def test_window_of_no_time() -> None:
    """0 means 0, not a hidden default."""
    assert releases(run("window:0ms", [0.5])) == [(0.5, 1, Reason.TIMEOUT)]


# ------------------------------------------------------------------------------------------- aimd


def test_aimd_grows_while_the_objective_is_kept() -> None:
    """Each batch at the limit adds a step: 1, 2, 3, …"""
    history = run("aimd", [0.0] * 10, max_latency=60.0)
    assert [batch.size for batch in history.batches] == [1, 2, 3, 4]


def test_aimd_backs_off_by_a_tenth() -> None:
    """A batch longer than the objective, or overloaded, shrinks the limit; never below one."""
    policy = AIMD(step=4.0)
    scheduler = Scheduler(policy, Limits(64, 0.5))
    scheduler.submit(Job(0.0))
    scheduler.next(0.0)
    policy.observe(ended(1, 0.1))
    assert policy.size == 5.0
    policy.observe(ended(5, 0.6))
    assert policy.size == 5.0 * 0.9
    policy.observe(ended(4, 0.1, Outcome.OVERLOADED))
    assert policy.size == 5.0 * 0.9 * 0.9
    for _ in range(50):
        policy.observe(ended(1, 9.9))
    assert policy.size == 1.0


def test_aimd_learns_nothing_from_small_or_failed_batches() -> None:
    """A batch that did not fill the limit does not prove it; one that raised says nothing."""
    policy = AIMD()
    policy.size = 8.0
    policy.observe(ended(3, 0.1))
    policy.observe(ended(8, 0.1, Outcome.FAILED))
    assert policy.size == 8.0


def test_aimd_takes_a_job_larger_than_its_limit() -> None:
    """Otherwise the queue would stand still behind it."""
    history = simulate(
        [0.0, 0.0], Scheduler(AIMD(), Limits(max_batch_size=8)), _second, sizes=[5, 1]
    )
    assert [batch.size for batch in history.batches] == [5, 1]


# ------------------------------------------------------------------------------------- their names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cork", Cork),
        ("greedy", Greedy),
        ("window:2ms", Window),
        ("aimd", AIMD),
        ("aimd:0.5", AIMD),
        (Greedy, Greedy),
        (Window, Window),
        (lambda: Window(0.1), Window),
        (Greedy(), Greedy),
    ],
)
def test_a_policy_is_a_name_a_class_a_factory_or_itself(name: Any, kind: type[Policy]) -> None:
    """All of them make one; each name a fresh one."""
    assert type(make_policy(name)) is kind


def test_the_argument_of_a_name() -> None:
    """A duration for the window, items for aimd."""
    window, aimd = make_policy("window:2.5ms"), make_policy("aimd:0.5")
    assert isinstance(window, Window)
    assert isinstance(aimd, AIMD)
    assert (window.timeout, aimd.step) == (2.5e-3, 0.5)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "expected one of cork, greedy, window:TIMEOUT, aimd"),
        ("corc", "expected one of cork.*got 'corc'"),
        ("cork:1", "expected one of cork"),
        ("window", "expected one of cork"),
        ("window:", "policy 'window:': expected a duration"),
        ("window:2", "policy 'window:2': expected a duration with a unit"),
        ("window:-2ms", "expected a duration"),
        ("aimd:", "policy 'aimd:'"),
        ("aimd:0", "expected a positive step"),
        ("aimd:-1", "expected a positive step"),
        ("aimd:nan", "expected a positive step"),
        ("aimd:many", "policy 'aimd:many'"),
    ],
)
def test_wrong_names(name: str, complaint: str) -> None:
    """The message lists what is known, or says what is wrong with the argument."""
    with pytest.raises(ValueError, match=complaint):
        make_policy(name)


@pytest.mark.parametrize("made", [object, dict, lambda: None])
def test_what_is_no_policy(made: Any) -> None:
    """It lacks decide and observe: told before the first batch."""
    with pytest.raises(TypeError, match="expected an object with decide and observe"):
        make_policy(made)


@pytest.mark.parametrize("name", ["cork", "greedy", "window:2ms", "aimd"])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_policy_answers_everyone(name: str, workers: int) -> None:
    """Without a deadline all jobs are done, in the order in which they came."""
    arrivals = [0.1 * index for index in range(100)]
    history = run(name, arrivals, workers, max_latency=inf)
    assert {job.outcome for job in history.jobs} == {JobOutcome.DONE}
    assert [job.arrived for job in history.jobs] == arrivals
