"""One caller's share of a batch to come, and what became of it."""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from adaptive_batching.cooperation.waiter import Waiter
from adaptive_batching.core import Job
from adaptive_batching.units import Duration, seconds_of
from adaptive_batching.workers.handler.results import honest

R_co = TypeVar("R_co", covariant=True)


class Attendant(Protocol):
    """Sees to it that a handle gets its answer."""

    def attend(self, handle: "Handle[Any]", timeout: float | None) -> None:
        """Return when it has; raise if that is not to be."""


class Handle(Job, Generic[R_co]):
    """What `submit` returns: some items on their way, and later what became of them.

    The item that fills up a batch changes places with the last, which is the one to be repeated.
    """

    __slots__ = ("_answer", "_attendant", "_filler", "items", "single", "waiters")

    def __init__(
        self,
        attendant: Attendant,
        items: Sequence[Any],
        arrived: float,
        deadline: float,
        cost: float,
        filler: int,
        *,
        single: bool,
    ) -> None:
        super().__init__(arrived, len(items), deadline, cost=cost)
        self._attendant = attendant
        self._answer: Any = _PENDING
        self._filler = filler
        self.items = _exchanged(items, filler)
        self.single = single
        self.waiters: list[Waiter] = []

    @property
    def done(self) -> bool:
        """Whether there is a result, or an error."""
        return self._answer is not _PENDING

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the result, running batches for all meanwhile if no other thread does.

        Args:
            timeout: Seconds, or a text such as `"100ms"`; a batch that has begun is run to its end
                all the same. The items stay in the queue, and one may ask again.

        Raises:
            TimeoutError: It did not come in time.
            ReentrantCall: The calling thread holds the execution lock.
            Refused: They were turned away: they could not make their deadline.
            DeadlineExceeded: They waited past their deadline.
            Exception: What the handler raised, or returned in an item's place.
        """
        if self._answer is _PENDING:
            seconds = None if timeout is None else seconds_of("timeout", timeout)
            self._attendant.attend(self, seconds)
        answer = self._answer
        if isinstance(answer, _Failure):
            # Each asks anew: without this, the traceback would grow by every thread that raises it.
            raise answer.error.with_traceback(answer.traceback)
        result: R_co = answer
        return result

    def succeed(self, results: Sequence[Any]) -> None:
        """Here are the results of its items; an exception may stand in one's place."""
        results = _exchanged(results, self._filler)
        for result in results:
            if issubclass(type(result), BaseException):  # it may say what it likes of its class
                self.fail(honest(result))
                return
        self._answer = results[0] if self.single else list(results)

    def fail(self, error: BaseException) -> None:
        """There is an error instead."""
        self._answer = _Failure(error, error.__traceback__)


def _exchanged(values: Sequence[Any], place: int) -> Sequence[Any]:
    """The values, of which one has changed places with the last."""
    if place == -1:
        return values
    exchanged = list(values)
    exchanged[place], exchanged[-1] = exchanged[-1], exchanged[place]
    return exchanged


class _Failure(NamedTuple):
    error: BaseException
    traceback: Any


_PENDING = object()
