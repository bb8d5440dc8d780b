"""Every error this library raises by itself, divided by what is at fault::

    BatchingError
    ├── Refused                  before any work was done: safe to send again
    │   ├── Overloaded           503  it could not have been answered in time
    │   ├── QueueFull            503  more waits already than `max_queue`
    │   │   └── TenantQueueFull  429  and most of it is this tenant's
    │   ├── Draining             503  the dispatcher is closing
    │   ├── NoWorkers            503  none is alive, nor will one be in time
    │   └── JobTooLarge          413  one request holds more items than a batch may
    ├── MalformedBody            400  a body is not what its codec can read
    ├── InvalidItem              422  it can be read, but does not hold what the endpoint takes
    ├── DeadlineExceeded         504  it was let in, and its deadline came before its answer
    ├── HandlerError                  the handler broke its contract
    │   ├── BatchFunctionError   500  wrong length, wrong type, an exit instead of an answer
    │   ├── CostError            500  the function `cost` raised, or returned no number
    │   ├── BatchKeyError        500  the function `key` raised, or returned what has no hash
    │   ├── RemoteError          500  raised in a worker by something that can't be brought over
    │   └── Quarantined          500  workers died over this request, at last over it alone
    ├── WorkerError                   the process that ran the batch
    │   ├── WorkerLost           503  died, or hung up, while it held the batch
    │   ├── WorkerTimeout        504  did not answer in time; it was killed, or hung up on
    │   ├── WorkerStartError     503  could not be started
    │   ├── CrashLoop            503  they die as soon as they are started: why a pool isn't ready
    │   ├── UpstreamAnswered          the model server answered with an error, which clients get
    │   │   ├── UpstreamRefusal       to this batch: alone, each of its members might be answered
    │   │   ├── UpstreamOutOfMemory   to so large a batch
    │   │   ├── UpstreamBusy          now: it has no time
    │   │   └── UpstreamDenial        to any client that asks like that
    │   ├── UpstreamLost         502  the model server hung up before it answered
    │   │   └── UpstreamUnreachable   it can't be connected to: nothing was sent
    │   └── UpstreamBroken       502  what came from the model server is no answer
    │       ├── UpstreamMismatch      it does not hold one result for each item
    │       └── UpstreamTooLarge      it is larger than an answer may be
    └── UsageError                    the program that uses the library is wrong
        ├── WrongEventLoop       500  one dispatcher, two event loops
        ├── NoEventLoop          500  a thread calls, and no event loop runs that could answer
        ├── ReentrantCall        500  a thread would wait for itself
        ├── HandlerNotFound      500  a worker process can't import the handler
        ├── ConfigError          500  a file of settings, or a variable, says what can't be
        ├── SettingError         500  an option, or a key of a file, says what can't be
        ├── PolicyError          500  a policy answered with something impossible
        └── TraceError           400  a trace file can't be read

Exceptions raised by a handler are not wrapped: they reach the caller as they are.
Each class carries the HTTP status and the fixed code under which the service reports it.
"""

from math import nan
from typing import Any, ClassVar


class BatchingError(Exception):
    """Base of all errors of this library."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"


class Refused(BatchingError):
    """The request was turned away before any work was done for it.

    Attributes:
        retry_after: Seconds after which this request would be let in if no other came until
            then, by the predictions and a twentieth more. If a batch is overdue, that is as long as
            it is overdue, and at least as long as the shortest batch takes. 0, for at once, if it
            was shed only because it had waited. 0 also while nothing is known.
    """

    status = 503
    code = "refused"

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(Refused):
    """The prediction says that no answer would have come within `max_latency`."""

    code = "overloaded"


class QueueFull(Refused):
    """As many items wait as `max_queue` allows."""

    code = "queue_full"


class TenantQueueFull(QueueFull):
    """As many of this tenant's items wait as there is room for all others."""

    status = 429
    code = "tenant_limit"


class Draining(Refused):
    """The dispatcher finishes what it has and takes nothing more."""

    code = "draining"


class NoWorkers(Refused):
    """No worker is alive, and one is not expected in time."""

    code = "no_workers"


class JobTooLarge(Refused):
    """One request brings more items than there is ever room for, in a batch or in a queue.

    Attributes:
        cost: What its items cost, by `Costs.of_items`; NaN if that is not known.
    """

    status = 413
    code = "too_many_items"

    def __init__(self, message: str, *, retry_after: float = 0.0, cost: float = nan) -> None:
        super().__init__(message, retry_after=retry_after)
        self.cost = cost


class MalformedBody(BatchingError, ValueError):
    """What a client sent can't be read: not JSON, say, or deeper nested than anything may be.

    The text is for the client, who sent what it speaks of.
    """

    status = 400
    code = "malformed"


class InvalidItem(BatchingError, ValueError):
    """What a client sent can be read, but is not of the type that the endpoint declares.

    Both texts are for the client, who sent what they speak of.

    Attributes:
        path: Where in the item: `$.pixels[3]`; `$` is all of it.
        fault: What is wrong there: "expected float, got str".
    """

    status = 422
    code = "invalid_item"

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(path, fault)
        self.path = path
        self.fault = fault

    def __str__(self) -> str:
        return f"{self.path}: {self.fault}"

    def within(self, index: int) -> "InvalidItem":
        """This fault, of an item that is one of a list."""
        return InvalidItem(f"$[{index}]{self.path.removeprefix('$')}", self.fault)


class DeadlineExceeded(BatchingError):
    """The request was let in, but its deadline came while it waited or while its batch ran."""

    status = 504
    code = "deadline_exceeded"


class HandlerError(BatchingError):
    """The handler did not keep the contract: a list in, a list of the same length out."""

    code = "handler_error"


class BatchFunctionError(HandlerError):
    """What the handler returned can't be shared out among the members of its batch."""

    code = "bad_batch_result"


class CostError(HandlerError):
    """The function that says what an item costs raised, or returned no number from 0 to 2**53.

    Only that item's call fails: it has joined no batch.
    """

    code = "bad_cost"


class BatchKeyError(HandlerError):
    """The function that says an item's batch key raised, or returned what can't be hashed.

    Only that item's request fails: it has joined no batch.
    """

    code = "bad_key"


class RemoteError(HandlerError):
    """Stands for an exception of a worker process that could not be pickled."""

    code = "handler_error"


class Quarantined(HandlerError):
    """The request was run again, alone, after its worker had died, and that worker died as well.

    Sending it again would cost more workers; so it is no `WorkerError`, which may be worth a retry.
    """

    code = "quarantined"


class WorkerError(BatchingError):
    """The worker failed, not the handler and not the request."""

    status = 503
    code = "worker_error"


class WorkerLost(WorkerError):
    """The worker process died while it held the batch."""

    code = "worker_lost"


class WorkerTimeout(WorkerError):
    """The worker did not answer within the batch timeout; it was killed and is being replaced."""

    status = 504
    code = "worker_timeout"


class WorkerStartError(WorkerError):
    """The worker process could not load its handler."""

    code = "no_workers"


class CrashLoop(WorkerError):
    """Five workers of a pool died within a minute: it should get no requests, if others can.

    It is a readiness check's answer; requests that come all the same are served while they can be.
    """

    code = "crash_loop"


class UpstreamAnswered(WorkerError):
    """The model server behind a sidecar answered a batch with an error.

    Attributes:
        reply: What it said: a `workers.upstream.Reply`. It is what a client gets.
    """

    code = "upstream_answered"

    def __init__(self, reply: Any) -> None:
        super().__init__(f"the server answered {reply.status} to a batch of {reply.batch_size}")
        self.reply = reply


class UpstreamRefusal(UpstreamAnswered):
    """A server refused this batch (400, 413, 422, 500); one of its members may be to blame."""


class UpstreamOutOfMemory(UpstreamAnswered):
    """A server had too little memory for so large a batch (507, or it says so)."""


class UpstreamBusy(UpstreamAnswered):
    """A server has no time (429, 503), and has not begun."""


class UpstreamDenial(UpstreamAnswered):
    """A server's answer is about the whole batch, and would be the same for each member."""


class UpstreamLost(WorkerError):
    """The model server behind a sidecar hung up before it answered; what it ran is not known."""

    status = 502
    code = "upstream_lost"


class UpstreamUnreachable(UpstreamLost):
    """No connection to the model server could be had, so nothing was sent."""


class UpstreamBroken(WorkerError):
    """What came from the model server is no answer, or breaks off."""

    status = 502
    code = "upstream_broken"


class UpstreamMismatch(UpstreamBroken):
    """The answer can't be shared out: it does not hold one result for each item."""


class UpstreamTooLarge(UpstreamBroken):
    """The answer is larger than one may be."""


class UsageError(BatchingError):
    """The calling program has to be changed; trying again will not help."""


class WrongEventLoop(UsageError, RuntimeError):
    """A dispatcher belongs to the event loop that used it first."""


class NoEventLoop(UsageError, RuntimeError):
    """A thread's call needs the event loop that runs the batches, and it does not run."""


class ReentrantCall(UsageError, RuntimeError):
    """A thread waits for what only itself could do: for a batch, under the batch's own lock."""


class HandlerNotFound(UsageError, LookupError):
    """A worker process finds its handler by module and name, and there is none."""


class ConfigError(UsageError):
    """A file of settings, or a variable of the environment, says what can't be; names the key."""

    code = "bad_config"


class SettingError(UsageError, ValueError):
    """One setting says what can't be, wherever it was said.

    Attributes:
        key: What it is called in a file.
        fault: What is wrong with it: "expected at most 100%, got 200%".
    """

    def __init__(self, key: str, fault: str) -> None:
        super().__init__(key, fault)
        self.key = key
        self.fault = fault

    def __str__(self) -> str:
        return f"{self.key}: {self.fault}"


class PolicyError(UsageError):
    """A policy's decision can't be carried out; the message names the policy and the decision."""


class TraceError(UsageError, ValueError):
    """A trace can't be read; the message names file, line, what was expected and what was there."""

    status = 400
