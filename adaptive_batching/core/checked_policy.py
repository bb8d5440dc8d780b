"""Asks a policy, and holds it to its word: what can't be carried out is an error that names it."""

from math import inf

from adaptive_batching.core.job import Job
from adaptive_batching.core.policy import (
    NONE_WELCOME,
    Decision,
    Dispatch,
    Doorkeeper,
    Hold,
    Policy,
    Shed,
    Situation,
    Watcher,
    Welcome,
)
from adaptive_batching.core.queues.key_queue import Host, KeyQueue
from adaptive_batching.core.queues.queues import Queues, Triage
from adaptive_batching.core.records import BatchRecord
from adaptive_batching.errors import PolicyError
from adaptive_batching.exception_text import describe
from adaptive_batching.units import is_number

_ENDLESS = 1e308  # seconds; whole numbers beyond that are none that can be reckoned with


class CheckedPolicy:
    """A policy, whatever of the optional methods it has.

    Args:
        policy: Decides about one queue at a time.

    Attributes:
        keeps_door: Whether it is asked before a job is let in.
        watches: Whether it is asked while every worker is busy.
        triages: Whether it says which of several queues goes first.
    """

    __slots__ = (
        "_doorkeeper", "_host", "_policy", "_triage", "_watcher", "keeps_door", "triages",
        "watches",
    )  # fmt: skip

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._doorkeeper = policy if isinstance(policy, Doorkeeper) else None
        self._host = policy if isinstance(policy, Host) else None
        self._watcher = policy if isinstance(policy, Watcher) else None
        self._triage = policy if isinstance(policy, Triage) else None
        self.keeps_door = self._doorkeeper is not None
        self.watches = self._watcher is not None
        self.triages = self._triage is not None

    def decide(self, situation: Situation) -> Decision:
        """What to do about a queue.

        Raises:
            PolicyError: It raised, or its answer is no decision, or one about the past.
        """
        ask = self._policy.decide
        if self._watcher is not None and not situation.idle:
            ask = self._watcher.watch
        try:
            decision = ask(situation)
        except Exception as error:
            raise PolicyError(f"{self._asked(situation.idle)} raised {describe(error)}") from error
        if isinstance(decision, Hold):
            if decision.until > situation.now:
                return decision
            raise self.broken(
                situation.idle, "a Hold.until later than now", decision, situation.now
            )
        if isinstance(decision, Dispatch):
            return decision
        if isinstance(decision, Shed):
            return decision
        raise self.broken(situation.idle, "Dispatch, Hold or Shed", decision, situation.now)

    def refuse(self, queue: KeyQueue, job: Job, others: float) -> float | None:
        """None to let a job in that has just come, or the seconds after which it would be.

        Args:
            queue: In which it would wait.
            job: The job.
            others: See `KeyQueue.situation`.

        Raises:
            PolicyError: It raised, or its answer is neither.
        """
        doorkeeper = self._doorkeeper
        assert doorkeeper is not None
        try:
            wait = doorkeeper.refuse(queue.situation(job.arrived, others), job)
        except Exception as error:
            raise PolicyError(
                f"{type(self._policy).__name__}.refuse raised {describe(error)}"
            ) from error
        return None if wait is None else self._seconds("refuse", wait, "None or ")

    def welcome(self, queue: KeyQueue) -> Welcome:
        """The jobs that are let in for certain until a batch leaves or ends.

        Raises:
            PolicyError: It raised, or its answer is something else.
        """
        if self._host is None:
            return NONE_WELCOME
        name = f"{type(self._policy).__name__}.welcome"
        try:
            welcome: object = self._host.welcome(queue)
        except Exception as error:
            raise PolicyError(f"{name} raised {describe(error)}") from error
        if isinstance(welcome, Welcome) and all(is_number(each) for each in welcome):
            return welcome
        raise PolicyError(f"{name}: expected a Welcome of numbers, got {welcome!r}")

    def lookahead(self, queues: Queues, now: float) -> float:
        """Seconds for which a batch may be put off for one that is worth more; see `Triage`.

        Raises:
            PolicyError: It raised, or its answer is no time.
        """
        triage = self._triage
        assert triage is not None
        try:
            lookahead = triage.lookahead(queues, now)
        except Exception as error:
            name = type(self._policy).__name__
            raise PolicyError(f"{name}.lookahead raised {describe(error)}") from error
        return self._seconds("lookahead", lookahead)

    def observe(self, record: BatchRecord) -> None:
        """Tell it of a batch that has ended.

        Raises:
            PolicyError: It raised.
        """
        try:
            self._policy.observe(record)
        except Exception as error:
            raise PolicyError(
                f"{type(self._policy).__name__}.observe raised {describe(error)}"
            ) from error

    def broken(
        self, idle: int, expected: str, decision: object, now: float | None = None
    ) -> PolicyError:
        """The error for a decision that can't be carried out, made with so many workers idle."""
        at = "" if now is None else f" at now={now!r}"
        return PolicyError(f"{self._asked(idle)}: expected {expected}, got {decision}{at}")

    def _asked(self, idle: int) -> str:
        """The method that decided, for messages."""
        watched = self._watcher is not None and not idle
        return f"{type(self._policy).__name__}.{'watch' if watched else 'decide'}"

    def _seconds(self, method: str, answer: object, otherwise: str = "") -> float:
        asked = f"{type(self._policy).__name__}.{method}: expected"
        if not is_number(answer):
            raise PolicyError(f"{asked} {otherwise}seconds, got {answer!r}")
        if not answer >= 0:
            raise PolicyError(f"{asked} 0 seconds or more, got {answer!r}")
        if answer > _ENDLESS and answer != inf:
            raise PolicyError(f"{asked} seconds that fit into a float, got 10**308 or more")
        return float(answer)
