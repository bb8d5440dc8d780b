"""What a Triton server knows of its own batches, so that nobody has to learn it anew.

`GET /v2/models/stats` is its statistics extension of the Open Inference Protocol; other servers
answer 404. Its durations are those of the model; what HTTP adds is learned from the first batches.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from adaptive_batching.errors import BatchingError, UpstreamUnreachable
from adaptive_batching.marshal.sidecar.upstream.addresses import Address
from adaptive_batching.marshal.sidecar.upstream.client import Client
from adaptive_batching.wire.exchange import Message

_TIMEOUT = 2.0  # seconds
_AGAIN = 2.0  # seconds
_MAX_BYTES = 2**22
_MOST_MODELS = 16  # whose configuration is looked at
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
T = TypeVar("T")
_log = logging.getLogger("adaptive_batching.upstream")


class _Duration(msgspec.Struct, frozen=True):
    count: _Number = 0
    ns: _Number = 0

    @property
    def seconds(self) -> float:
        return self.ns * 1e-9 / self.count if self.count else 0.0


_NOTHING = _Duration()


class _OfSize(msgspec.Struct):
    batch_size: _Number
    compute_input: _Duration = _NOTHING
    compute_infer: _Duration = _NOTHING
    compute_output: _Duration = _NOTHING

    @property
    def seconds(self) -> float:
        return sum(
            each.seconds for each in (self.compute_input, self.compute_infer, self.compute_output)
        )


class _Model(msgspec.Struct):
    name: str
    execution_count: int = 0
    batch_stats: list[_OfSize] = []


class _Statistics(msgspec.Struct):
    model_stats: list[_Model]


class _Configuration(msgspec.Struct):
    dynamic_batching: dict[str, object] | None = None
    max_batch_size: int = 0  # none: the model takes no batches as Triton understands them


async def rehearsal(client: Client, address: Address, most: int) -> list[tuple[int, float]]:
    """How long batches took, as items and seconds; of the model that ran most.

    Warns of models that the server batches itself, which makes requests wait twice, and of those
    that refuse batches as large as ours.

    Args:
        client: Asks.
        address: The server.
        most: Items that a batch of ours may have.

    Raises:
        UpstreamUnreachable: The server has not started yet.
    """
    statistics = await _get(client, address, "/v2/models/stats", _Statistics)
    if statistics is None:
        return []
    for model in statistics.model_stats[:_MOST_MODELS]:
        await _look_at(client, address, model.name, most)
    busiest = max(statistics.model_stats, key=lambda each: each.execution_count, default=None)
    sizes = busiest.batch_stats if busiest is not None else []
    return [(each.batch_size, each.seconds) for each in sizes if each.batch_size > 0 < each.seconds]


async def warn_once_started(client: Client, find: Callable[[], Address], most: int) -> None:
    """Warn as `rehearsal` does: a server that starts after us has run nothing, but may batch."""
    while True:
        await asyncio.sleep(_AGAIN)
        with suppress(UpstreamUnreachable):
            await rehearsal(client, find(), most)
            return


async def _look_at(client: Client, address: Address, name: str, most: int) -> None:
    path = f"/v2/models/{quote(name, safe='')}/config"
    configuration = await _get(client, address, path, _Configuration)
    if configuration is None:
        return
    if configuration.dynamic_batching is not None:
        _log.warning(
            "%s batches %r itself (dynamic_batching): requests wait for company twice",
            address.name,
            name,
        )
    if 0 < configuration.max_batch_size < most:
        _log.warning(
            "%s takes at most %d items for %r (max_batch_size), and our batches have up to %d:"
            " larger ones are refused and sent again in parts; lower max_batch_size here",
            address.name,
            configuration.max_batch_size,
            name,
            most,
        )


async def _get(client: Client, address: Address, path: str, kind: type[T]) -> T | None:
    """What the server says there; None if it says nothing, or something else."""
    try:
        status, answer = await client.send(
            address, "GET", path, Message(b""), {}, _MAX_BYTES, _TIMEOUT
        )
        return msgspec.json.decode(answer.body, type=kind) if status == 200 else None
    except UpstreamUnreachable:
        raise
    except (BatchingError, ValueError, RecursionError):
        return None
