"""The tables of the configuration page are made of the declarations of settings."""

from pathlib import Path

import pytest
from msgspec import inspect

from adaptive_batching.marshal.config.endpoints_file import EndpointSettings
from adaptive_batching.marshal.config.quantities import written
from adaptive_batching.marshal.config.settings import RouteSettings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def default(field):
    """What a setting is unless it is said, as the page has it."""
    if field.required:
        return "required"
    if told := field.type.extra.get("default"):
        return told
    return "" if field.default in (None, "", ()) else f"`{written(field.default)}`"


def rows(kind):
    """The table of a kind of settings."""
    for field in inspect.type_info(kind).fields:
        meaning = field.type.extra["meaning"]
        yield f"| `{field.name}` | {default(field)} | {meaning} |"


@pytest.mark.parametrize("kind", [RouteSettings, EndpointSettings])
def test_the_page_has_the_table_of_the_declarations(kind):
    """Whoever declares a setting pastes what this test expects."""
    table = "\n".join(rows(kind))
    assert table in PAGE.read_text(), f"expected in {PAGE}:\n{table}"
