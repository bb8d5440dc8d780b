"""What a worker that connects to us says, and what it is told: one frame of MessagePack each.

    worker      hello, then an empty frame: "I am idle"
    dispatcher  batch    jobs, each an id and its item
    worker      results  for each of these ids a result or an error; it is idle again
    worker      failure  instead of results: what the handler raised over the batch
    worker      bye      "no more batches": it is hung up on once it holds none
    dispatcher  refused  why it is hung up on

`docs/reference/frames.md` specifies them. Nothing here trusts the other side.
"""

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from adaptive_batching import exception_text
from adaptive_batching.errors import HandlerError, RemoteError
from adaptive_batching.wire.plain import plain

PROTOCOL = 1
MAX_ITEMS = 2**16  # in a message: a few bytes could claim millions, each of which costs memory
_MAX_NAME = 64  # characters
_MAX_REASON = 2**16  # characters of an error

_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
_Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=_MAX_REASON)]
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_ITEMS)]
_Few = msgspec.Meta(max_length=MAX_ITEMS)


class MalformedMessage(ValueError):
    """The other side does not keep to the protocol; the text says how."""


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """The first message of a worker.

    Attributes:
        protocol: The version that it speaks.
        max_batch_size: The most items that it wants at a time; None for as many as there are.
        name: Its name, so that what was learned of it outlives its connection; may be empty.
    """

    protocol: int
    max_batch_size: _Size | None = None
    name: Annotated[str, msgspec.Meta(max_length=_MAX_NAME)] = ""


class Idle(msgspec.Struct, frozen=True):
    """An empty frame: the worker can take a batch."""


class Batch(msgspec.Struct, tag="batch", frozen=True):
    """What a worker is to compute: ids and items."""

    jobs: Annotated[list[tuple[_Id, Any]], _Few]


class Results(msgspec.Struct, tag="results", frozen=True, omit_defaults=True):
    """What it computed, in any order.

    Attributes:
        results: Ids and results.
        errors: Ids and what went wrong with these jobs, each by itself.
        raised: Ids of the jobs of a call, and what it raised, maybe over only one of them.
    """

    results: Annotated[list[tuple[_Id, Any]], _Few] = []
    errors: Annotated[list[tuple[_Id, _Reason]], _Few] = []
    raised: Annotated[list[tuple[Annotated[list[_Id], _Few], _Reason]], _Few] = []


class Failure(msgspec.Struct, tag="failure", frozen=True):
    """What the handler raised over the batch as a whole."""

    error: _Reason


class Bye(msgspec.Struct, tag="bye", frozen=True):
    """The worker wants no more batches."""


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """Why a worker is hung up on."""

    reason: _Reason


FromWorker: TypeAlias = Hello | Idle | Results | Failure | Bye
ToWorker: TypeAlias = Batch | Refused

_M = TypeVar("_M")
_encoder = msgspec.msgpack.Encoder(enc_hook=plain)
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(
    Hello | Results | Failure | Bye
)
_to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(Batch | Refused)


def encode(message: FromWorker | ToWorker) -> bytes:
    """Return the payload of a frame.

    Raises:
        Exception: It holds a value that MessagePack has no form for.
    """
    return b"" if isinstance(message, Idle) else _encoder.encode(message)


def decode_from_worker(payload: bytes | bytearray) -> FromWorker:
    """Read what a worker says.

    Raises:
        MalformedMessage: It is none of the messages that it may send.
    """
    return _decode(payload, _from_worker) if payload else Idle()


def decode_to_worker(payload: bytes | bytearray) -> ToWorker:
    """Read what a worker is told.

    Raises:
        MalformedMessage: It is none of the messages that it may get.
    """
    return _decode(payload, _to_worker)


def check_hello(hello: Hello) -> None:
    """See to it that we understand each other.

    Raises:
        MalformedMessage: It speaks another version.
    """
    if hello.protocol != PROTOCOL:
        msg = f"expected protocol {PROTOCOL}, got {hello.protocol}"
        raise MalformedMessage(msg)


def encode_batch(first: int, items: Sequence[Any]) -> tuple[bytes, dict[int, HandlerError]]:
    """Encode a batch whose jobs are numbered from `first`.

    Returns:
        The payload, and by id the items that MessagePack has no form for, which it leaves out.
    """
    jobs = list(enumerate(items, first))
    try:
        return encode(Batch(jobs)), {}
    except Exception:  # noqa: BLE001  an item's own methods may raise anything
        unfit = {
            job: HandlerError(f"an item can't be sent to the worker: {why}")
            for job, item in jobs
            if (why := _objection(item))
        }
        return encode(Batch([job for job in jobs if job[0] not in unfit])), unfit


def encode_results(
    returned: Sequence[tuple[int, Any]], raised: Sequence[tuple[list[int], BaseException]] = ()
) -> bytes:
    """Encode what became of the jobs of a batch.

    Args:
        returned: Ids and results; exceptions, and what can't be sent, become errors.
        raised: The ids of the jobs of each call that raised, and what it did.
    """
    errors = [
        (job, describe(result))
        for job, result in returned
        if issubclass(type(result), BaseException)  # it may raise if it is asked for its class
    ]
    failed = {job for job, _ in errors}
    pairs = [pair for pair in returned if pair[0] not in failed]
    in_calls = [(jobs, describe(error)) for jobs, error in raised]
    try:
        return encode(Results(pairs, errors, in_calls))
    except Exception:  # noqa: BLE001  a result's own methods may raise anything
        unfit = {
            job: f"a result can't be sent: {why}"
            for job, value in pairs
            if (why := _objection(value))
        }
        fit = [pair for pair in pairs if pair[0] not in unfit]
        return encode(Results(fit, [*errors, *unfit.items()], in_calls))


def answers(message: Results, jobs: Sequence[int]) -> list[Any]:
    """Return the results in the order of the jobs; an error stands in its job's place.

    Raises:
        MalformedMessage: A job has no answer, or two, or one was never asked for.
    """
    in_calls = [each for jobs, why in message.raised for each in product(jobs, [RemoteError(why)])]
    given = len(message.results) + len(message.errors) + len(in_calls)
    if given != len(jobs):
        raise MalformedMessage(f"expected an answer to each of {len(jobs)} jobs, got {given}")
    by_job = dict(message.results)
    by_job.update((job, RemoteError(reason)) for job, reason in message.errors)
    by_job.update(in_calls)
    missing = [job for job in jobs if job not in by_job]
    if missing:  # as many as were asked for, so another was answered twice or made up
        raise MalformedMessage(f"expected an answer to job {missing[0]}, got none")
    return [by_job[job] for job in jobs]


def describe(error: BaseException) -> str:
    """What a worker says of an exception."""
    # surrogates have no form in UTF-8
    described = exception_text.describe(error).encode("utf-8", "backslashreplace").decode()
    return described[:_MAX_REASON]


def _decode(payload: bytes | bytearray, decoder: "msgspec.msgpack.Decoder[_M]") -> _M:
    try:
        return decoder.decode(payload)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"{type(error).__name__}: {error}") from None


def _objection(value: object) -> str:
    """Why a value can't be encoded; empty if it can."""
    kind = exception_text.qualname_of(type(value))
    try:
        _encoder.encode(value)
    except RecursionError:
        return f"a {kind} that is nested too deep, or contains itself"
    except Exception as error:  # noqa: BLE001  the value's own methods may raise anything
        return f"MessagePack has no form for this {kind}: {describe(error)}"
    return ""
