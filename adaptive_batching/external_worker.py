"""A worker that is started apart: connects to a dispatcher's socket and pulls batches.

    python -m adaptive_batching.external_worker --connect /run/model.sock module:Handler

The same in another language: `docs/reference/frames.md` says what travels.
"""

import argparse
import asyncio
import importlib
import logging
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import FrameType
from typing import Any

from adaptive_batching.allowed_sizes import largest_batch, make_padding, make_sizes
from adaptive_batching.configured_handler import check_takes_a_list, configured
from adaptive_batching.core import Costs, Limits
from adaptive_batching.exception_text import exc_info
from adaptive_batching.wire import worker_messages as messages
from adaptive_batching.wire.frames import MAX_FRAME, Part
from adaptive_batching.wire.frames import encode as encode_frame
from adaptive_batching.wire.worker_messages import (
    PROTOCOL,
    Batch,
    Bye,
    Failure,
    Hello,
    Idle,
    MalformedMessage,
    Refused,
)
from adaptive_batching.workers.handler import handler as handlers
from adaptive_batching.workers.handler.results import CallRaised, check_results, raised_by_calls
from adaptive_batching.workers.pool.backoff import Backoff
from adaptive_batching.workers.process.stream import payloads, send

_log = logging.getLogger("adaptive_batching.worker")


def main(arguments: list[str]) -> None:
    """Load a handler and serve a socket with it until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        sizes = make_sizes(options.sizes)
        most = options.max_batch_size
        costs = Costs(padded=True, pad_costs=options.pad_costs)
        limits = Limits(largest_batch(most, sizes), costs=costs, sizes=sizes)
        hello = Hello(PROTOCOL, limits.max_batch_size if sizes else most, options.name)
        messages.decode_from_worker(messages.encode(hello))
    except (MalformedMessage, ValueError) as error:  # better now than after the model is loaded
        parser.error(str(error))
    with asyncio.Runner() as runner:
        found = _load(options.handler)
        try:
            handler = configured(found, padding=make_padding(limits, None), costs=costs)
            check_takes_a_list(handler)
        except TypeError as error:
            parser.error(str(error))
        call = handlers.ready(handler, runner)
        name = handlers.name_of(handler)
        puller = Puller(options.connect, hello, call, name, options.max_frame)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, puller.leave)
        puller.run()


class Puller:
    """Connects, again and again with growing pauses, and runs the batches that it is given.

    Args:
        path: The dispatcher's socket.
        hello: What it says of itself.
        call: Runs a batch.
        handler: Its name, for messages.
        max_frame: Bytes that the dispatcher accepts.
    """

    def __init__(
        self,
        path: str,
        hello: Hello,
        call: Callable[[list[Any]], Any],
        handler: str,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._path = path
        self._hello = hello
        self._call = call
        self._handler = handler
        self._max_frame = max_frame
        self._stream: socket.socket | None = None
        self._idle = False
        self._leaving = False

    def run(self) -> None:
        """Serve until told to leave."""
        backoff = Backoff(random.random)
        while not self._leaving:
            came = time.monotonic()
            try:
                self._visit()
                reason = "hung up"
            except (OSError, MalformedMessage) as error:
                reason = str(error)
            finally:
                self._stream = None
                self._idle = False
            if not self._leaving:
                pause = backoff.after(time.monotonic() - came)
                _log.warning("%s: %s; trying again in %.1f s", self._path, reason, pause)
                time.sleep(pause)

    def leave(self, number: int, _frame: FrameType | None) -> None:
        """A signal says to go: once its batch is answered; at a second one, now."""
        signal.signal(number, signal.SIG_DFL)
        self._leaving = True
        if self._stream is None:
            sys.exit(0)
        if self._idle:
            self._say(Bye())  # it hangs up then, or a batch crosses this and is answered first

    def _visit(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.connect(self._path)
            self._stream = stream
            self._say(self._hello)
            self._say(Idle())
            self._await_a_batch()
            for payload in payloads(stream):
                message = messages.decode_to_worker(payload)
                if isinstance(message, Refused):
                    raise MalformedMessage(f"hung up on us: {message.reason}")
                self._idle = False
                send(stream, self._answer(message))
                self._await_a_batch()

    def _await_a_batch(self) -> None:
        self._idle = True
        if self._leaving:
            self._say(Bye())

    def _answer(self, batch: Batch) -> list[Part]:
        jobs = [job for job, _ in batch.jobs]
        items = [item for _, item in batch.jobs]
        try:
            results = check_results(self._call(items), len(batch.jobs), self._handler)
            ended = [*zip(jobs, results, strict=True)]
            returned = [(job, each) for job, each in ended if _raised(each) is None]
            raised = [
                ([job for job, each in ended if _raised(each) is error], error)
                for error in raised_by_calls(results)
            ]
            for _, error in raised:
                _log.error("the handler failed", exc_info=exc_info(error))
            return encode_frame([messages.encode_results(returned, raised)], self._max_frame)
        except BaseException as error:  # noqa: BLE001 - an exit, too, is an answer
            _log.error("the handler failed", exc_info=exc_info(error))
            return encode_frame([messages.encode(Failure(messages.describe(error)))])

    def _say(self, message: Hello | Idle | Bye) -> None:
        assert self._stream is not None
        send(self._stream, encode_frame([messages.encode(message)]))


def _raised(result: Any) -> BaseException | None:
    """What the call of an item raised, if that stands in the place of its result."""
    return result.error if type(result) is CallRaised else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m adaptive_batching.external_worker",
        description="Serve a dispatcher's socket with a handler until SIGTERM.",
    )
    parser.add_argument("--connect", metavar="PATH", required=True, help="the dispatcher's socket")
    parser.add_argument("--max-batch-size", type=int, help="items to take at a time")
    parser.add_argument(
        "--sizes",
        type=_whole_numbers,
        metavar="N,N,...",
        help="items of the batches that the handler takes: others are filled up to the next of"
        " them by repeating their last item",
    )
    parser.add_argument(
        "--pad-costs",
        type=_whole_numbers,
        default=(),
        metavar="N,N,...",
        help="lengths to the next of which the handler's padded arrays are padded, as in pad_costs",
    )
    parser.add_argument(
        "--max-frame",
        type=int,
        default=MAX_FRAME,
        help="bytes of results; see ExternalWorkers.max_frame",
    )
    parser.add_argument(
        "--name",
        default=f"{socket.gethostname()}:{os.getpid()}"[:64],
        help="what the dispatcher calls it, and remembers its speed by (default: host:pid)",
    )
    parser.add_argument("handler", metavar="MODULE:HANDLER", help="a function or class")
    return parser


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        expected = "expected whole numbers, such as 1,2,4,8"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}") from None


def _load(target: str) -> Any:
    """Import a handler; like `python -m`, look in the current directory first."""
    module, _, name = target.partition(":")
    if not module or not name:
        sys.exit(f"expected MODULE:HANDLER, such as digits:Digits, got {target!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise  # one that the handler's own module imports
        sys.exit(f"expected MODULE:HANDLER that can be imported, got {target!r}: {error}")
    try:
        found = attrgetter(name)(imported)
    except AttributeError as error:
        sys.exit(f"expected MODULE:HANDLER, got {target!r}: {error}")
    return getattr(found, "__wrapped__", found)  # decorated with what connects to us, perhaps


if __name__ == "__main__":
    main(sys.argv[1:])
