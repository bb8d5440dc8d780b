"""Clients who send again when they were refused, or answered too late.

That is how an overload outlasts its cause: each request that fails is offered again, so that the
load grows as the goodput shrinks (Bronson et al., Metastable Failures, HotOS 2021).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from adaptive_batching.core import Job, JobOutcome
from adaptive_batching.simulation.clients.tenants import Claim
from adaptive_batching.simulation.kernel.event_queue import EventQueue
from adaptive_batching.simulation.kernel.history import NoticedJob
from adaptive_batching.units import format_duration, parse_duration

_MOST = 100  # the backoff doubles each time
_STREAM = 8  # what else is made with the same seed must not share our random numbers
_REFUSED = frozenset({JobOutcome.SHED, JobOutcome.QUEUE_FULL})


@dataclass(frozen=True, slots=True)
class Retries:
    """What clients do about a refusal, or an answer that has not come in time.

    An error of the handler is an answer: no client sends again what made it fail.

    Attributes:
        most: How many times a request is sent again, at the most.
        backoff: Seconds until the first time; each later one takes twice as long, and all are
            spread by half. 0 for at once; None for the refusal's own `retry_after`, and at once
            after an answer that was late.
    """

    most: int
    backoff: float | None = None

    def __post_init__(self) -> None:
        if not self.most >= 1:
            raise ValueError(f"retries: expected at least 1, got {self.most}")
        if self.most > _MOST:
            raise ValueError(f"retries: expected {_MOST} at the most, got {self.most}")
        if self.backoff is not None and not 0 <= self.backoff < inf:
            raise ValueError(f"backoff: expected 0 seconds or more, got {self.backoff}")

    def __str__(self) -> str:
        times = f"up to {self.most} retries"
        if self.backoff is None:
            return f"{times} after Retry-After"
        if not self.backoff:
            return f"{times} at once"
        return f"{times} after {format_duration(self.backoff)} and twice as long each time"


def parse_backoff(text: str) -> float | None:
    """Read `50ms`, `0s`, or `retry-after`.

    Raises:
        ValueError: It is none of them.
    """
    return None if text == "retry-after" else parse_duration(text)


class Attempt(NoticedJob):
    """A request that is sent again; it came when it was sent for the first time.

    Attributes:
        number: How many times it was sent before.
    """

    __slots__ = ("number",)

    def __init__(self, failed: Job, now: float, delay: float, patience: float) -> None:
        claim = Claim(failed.tenant, failed.priority)
        super().__init__(now, delay, failed.size, patience, failed.key, claim, failed.cost)
        self.came = failed.came if isinstance(failed, NoticedJob) else failed.arrived
        self.number: int = failed.number + 1 if isinstance(failed, Attempt) else 1


class RetryingClients:
    """All clients of a simulation.

    Args:
        retries: What they do.
        events: Where they announce when they send again.
        patience: Seconds to a deadline, unless a job has its own.
        delay: By which arrivals are noticed later than they come (seconds).
        seed: Of the spread.

    Attributes:
        send: Takes a request when it comes again: a dispatcher's door, or a balancer's.
        sent_again: Requests that came not for the first time.
    """

    send: Callable[[Job], None]

    def __init__(
        self, retries: Retries, events: EventQueue, patience: float, delay: float, seed: int
    ) -> None:
        self._retries = retries
        self._events = events
        self._patience = patience
        self._delay = delay
        self._rng = np.random.default_rng([_STREAM, seed])
        self.sent_again = 0

    def told(
        self,
        jobs: Sequence[Job],
        now: float,
        outcome: JobOutcome,
        retry_after: float,
    ) -> Sequence[Job]:
        """Send again what is to be sent again.

        Args:
            jobs: They ended so.
            now: When their clients hear of it (seconds).
            outcome: How.
            retry_after: What a refusal said (seconds).

        Returns:
            The others, whose story ends here, each as it came for the first time but with the
            deadline of its last attempt.
        """
        over: list[Job] = []
        for job in jobs:
            failed = outcome is JobOutcome.EXPIRED or outcome in _REFUSED
            late = outcome is JobOutcome.DONE and now > _due(job)
            sent = job.number if isinstance(job, Attempt) else 0
            if (failed or late) and sent < self._retries.most:
                wait = self._wait(sent, retry_after if outcome in _REFUSED else 0.0)
                self._events.at(now + wait, partial(self._send_again, job))
            else:
                over.append(self._whole(job))
        return over

    def _send_again(self, failed: Job, now: float) -> None:
        patience = self._patience
        if failed.deadline != failed.arrived + patience:  # or the difference would be an ulp off
            patience = failed.deadline - failed.arrived
        self.sent_again += 1
        self.send(Attempt(failed, now, self._delay, patience))

    def _wait(self, sent: int, retry_after: float) -> float:
        backoff = self._retries.backoff
        if backoff is None:
            return retry_after
        return float(backoff * 2**sent * self._rng.uniform(0.5, 1.5)) if backoff else 0.0

    def _whole(self, job: Job) -> Job:
        if self._delay or not isinstance(job, Attempt):
            return job  # its observers know when it came
        return job.backdated


def _due(job: Job) -> float:
    """When its client wants the answer (seconds); the dispatcher takes it for later."""
    return job.due if isinstance(job, NoticedJob) else job.deadline
