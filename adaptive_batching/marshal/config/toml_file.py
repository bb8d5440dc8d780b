"""Files of settings: size limits, units, error messages, and reading again after a change."""

import asyncio
import os
import re
import stat
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.config.quantities import SHORT, quantity

T = TypeVar("T", bound=msgspec.Struct)

_LARGEST = 2**20  # bytes; no file written by hand is larger
_UNKNOWN = re.compile("Object contains unknown field `(.*)`")
_MISSING = re.compile("Object missing required field `(.*)`")
_EXPECTS = re.compile(r"Expected `([a-z]+)(?: \| null)?`([^,]*)")
_KINDS = {"bool": "true or false", "int": "an integer", "str": "a text", "array": "a list"}
_GLANCE = 1.0  # seconds between two looks at a file


class TomlFile:
    """A file that may change while its settings are in use.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = _stamp(path)

    def see(self) -> None:
        """Remember the present state of the file, which is read next."""
        self._seen = _stamp(self.path)

    async def written_anew(self) -> None:
        """Wait until the file has been written, or replaced as Kubernetes does, since `see`.

        It has been once two looks find the same: a file that lacks its last lines yet may be valid.
        """
        last = self._seen
        while True:  # files have no event that all systems tell
            await asyncio.sleep(_GLANCE)
            before, last = last, _stamp(self.path)
            if last == before != self._seen:
                return


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written; None for what is no file, such as a pipe."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    regular = stat.S_ISREG(status.st_mode)
    return (status.st_ino, status.st_mtime_ns, status.st_size) if regular else None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a file.

    Raises:
        ConfigError: It can't be read, is too large or is no TOML.
    """
    try:
        before = _stamp(path)
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise ConfigError(f"{path}: expected at most {_LARGEST} bytes")
        if _stamp(path) != before:
            raise ConfigError(f"{path}: it was written while it was read: read it again")
        return tomllib.loads(text.decode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected TOML: {error}") from error


def read_table(where: str, table: object, kind: type[T]) -> T:
    """Return the settings in a table.

    Args:
        where: What it is called in messages.
        table: What the file has there.
        kind: Which settings there are, and of what type.

    Raises:
        ConfigError: One is not as it should be; the message says which.
    """
    try:
        return msgspec.convert(table, kind, dec_hook=quantity)
    except msgspec.ValidationError as error:
        if isinstance(table, dict) and (missing := _MISSING.fullmatch(str(error))):
            return read_table(where, {**table, missing[1]: None}, kind)
        _, _, path = str(error).partition(" - at `$.")
        key = path.rstrip("`")
        there = table.get(key.partition("[")[0]) if isinstance(table, dict) else table
        fields = [field.name for field in msgspec.structs.fields(kind)]
        msg = told(error, there, fields)
        raise ConfigError(f"{where}{key and '.' + key}: {msg}") from error


def told(error: msgspec.ValidationError, value: object, fields: Sequence[str] = ()) -> str:
    """Return an error of msgspec in the words of a file: what was expected, and what was there.

    Args:
        error: What msgspec said.
        value: What was there.
        fields: What there may be, if that was a table.
    """
    message, _, _ = str(error).partition(" - at `$")
    if unknown := _UNKNOWN.fullmatch(message):
        return told_unknown(unknown[1], fields)
    if not (expects := _EXPECTS.match(message)):
        return message
    got = "nothing" if value is None else SHORT.repr(value)  # TOML has no null
    return f"expected {_KINDS.get(expects[1], expects[1])}{expects[2]}, got {got}"


def told_unknown(field: str, fields: Sequence[str]) -> str:
    """Return a message about an unknown field, with the nearest known ones."""
    near = get_close_matches(field, fields, n=1)
    expected = f"such as {near[0]}" if near else f"some of {', '.join(fields)}"
    return f"unknown field {field!r}: expected {expected}"
