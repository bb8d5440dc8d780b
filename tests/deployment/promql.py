"""Which metrics a PromQL expression names."""

import re
from collections.abc import Iterator

from tests.instrumentation.exposed import golden

_OF_US = re.compile(r"\b(?:adaptive_batching|process)_\w+")
_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")


def known_names() -> set[str]:
    """What an expression may name, the parts of histograms among them."""
    names = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
    for each in golden():
        parts = _OF_A_HISTOGRAM if each.kind == "histogram" else ("",)
        names |= {each.name + part for part in parts}
    return names


def named(expression: str) -> Iterator[str]:
    """Our metrics in an expression."""
    return iter(_OF_US.findall(expression))


def labels_of(expression: str) -> Iterator[tuple[str, str]]:
    """Pairs of metric and label that a selector asks for."""
    for name, selector in re.findall(r"\b(adaptive_batching_\w+)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', selector)):
            yield name, label


def known_labels(name: str) -> set[str]:
    """What a metric's series differ by, those that Prometheus adds among them."""
    labels = {each.name: set(each.labels) for each in golden()}
    bare = name
    for part in _OF_A_HISTOGRAM:
        bare = bare if bare in labels else name.removesuffix(part)
    return labels[bare] | {"job", "instance", "le", "app", "pod"}
