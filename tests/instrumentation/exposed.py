"""What a running program tells Prometheus, for tests to read."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

GOLDEN = Path(__file__).with_name("metrics.golden")
PREFIX = "adaptive_batching_"


class Known(NamedTuple):
    """A metric as the golden list has it."""

    name: str
    kind: str
    labels: tuple[str, ...]


def golden() -> list[Known]:
    """The names that others may rely on."""
    lines = [line.split() for line in GOLDEN.read_text().splitlines()]
    return [Known(name, kind, tuple(labels)) for name, kind, *labels in lines]


def shown(text: str) -> Iterator[Known]:
    """The metrics in what Prometheus was told; labels only where there are series."""
    for family in text_string_to_metric_families(text):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield Known(name, family.type, tuple(sorted(labels)))


def series(text: str) -> dict[tuple[str, ...], float]:
    """The value of each series, by its name and its labels' values in the order of the labels."""
    return {
        (
            sample.name.removeprefix(PREFIX),
            *dict(sorted(sample.labels.items())).values(),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def ours(metrics: Iterable[Known]) -> list[Known]:
    """Without those of the process, which are the Prometheus client's."""
    return [each for each in metrics if each.name.startswith(PREFIX)]
