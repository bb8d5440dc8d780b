"""DISB's workloads: one JSON document; each task that has a trace lists its milliseconds.

Tasks of the other kinds (closed loops, periodic ones) record no arrivals and are left out.
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from adaptive_batching.simulation.traffic.traces.format import Format, Request
from adaptive_batching.simulation.traffic.traces.lines import Lines

_LARGEST = 2**28  # characters: it can't be read piece by piece


class _Load(msgspec.Struct):
    trace: list[float] = []


class _Client(msgspec.Struct):
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=10**18)] = 1


class _Task(msgspec.Struct):
    load: _Load
    id: str | None = None
    client: _Client = msgspec.field(default_factory=_Client)


class _Workload(msgspec.Struct):
    tasks: list[_Task]


def _read(lines: Lines, _: str) -> Iterator[Request]:
    try:
        workload = msgspec.json.decode(_document(lines), type=_Workload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise lines.fault_at("as a whole", "a DISB workload", str(error)) from error
    for task in workload.tasks:
        for milliseconds in task.load.trace:
            yield Request(milliseconds / 1e3, task.client.batch_size, task.id)


def _document(lines: Lines) -> str:
    parts, length = [], 0
    for line in lines:
        parts.append(line)
        length += len(line) + 1
        if length > _LARGEST:
            raise lines.fault(f"a document of at most {_LARGEST} characters", "more")
    return "\n".join(parts)


DISB = Format(
    name="disb",
    looks=lambda first: first.lstrip().startswith("{") and '"timestamp"' not in first,
    read=_read,
    described='a JSON document with "tasks"',
    measures={"items": "batch_size"},
    in_order=False,
    keyed=True,  # by task: each has a model of its own
)
