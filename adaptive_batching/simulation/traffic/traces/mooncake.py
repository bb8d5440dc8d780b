"""Mooncake's traces: a JSON object a line, milliseconds from the start, tokens in and out."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from adaptive_batching.simulation.traffic.traces.format import Format, Request
from adaptive_batching.simulation.traffic.traces.lines import Lines

_Count = Annotated[int, msgspec.Meta(ge=0, le=10**18)]


class _Call(msgspec.Struct):
    timestamp: float
    input_length: _Count
    output_length: _Count = 0


def _read(lines: Lines, measure: str) -> Iterator[Request]:
    decode = msgspec.json.Decoder(_Call).decode
    for line in lines:
        try:
            call = decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            expected = "a JSON object with timestamp, input_length and output_length"
            raise lines.fault(expected, f"{line[:20]!r}: {error}") from error
        more = call.output_length if measure == "both" else 0
        yield Request(call.timestamp / 1e3, max(1, call.input_length + more))


MOONCAKE = Format(
    name="mooncake",
    looks=lambda first: first.startswith("{") and '"timestamp"' in first,
    read=_read,
    described='JSON lines with a "timestamp"',
    measures={"tokens": "input", "cost": "both"},
)
