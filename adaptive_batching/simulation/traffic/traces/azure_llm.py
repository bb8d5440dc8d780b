"""Azure's LLM inference traces of 2023: a wall clock, tokens in and tokens out."""

from collections.abc import Iterator

from adaptive_batching.simulation.traffic.traces.format import (
    Format,
    Request,
    WallClock,
    columns,
    count,
)
from adaptive_batching.simulation.traffic.traces.lines import Lines

_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def _read(lines: Lines, measure: str) -> Iterator[Request]:
    clock = WallClock()
    for time, context, generated in columns(lines, _HEADER):
        tokens = count(context, lines)
        more = count(generated, lines) if measure == "both" else 0
        yield Request(clock.seconds(time, lines), max(1, tokens + more))


AZURE_LLM = Format(
    name="azure-llm",
    looks=_HEADER.__eq__,
    read=_read,
    described=f"the header {_HEADER!r}",
    measures={"tokens": "context", "cost": "both"},
    own_zero=False,
)
