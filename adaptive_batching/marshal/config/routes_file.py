"""Files of routes: TOML tables, and variables of the environment that override them.

    [routes.digits]
    prefix = "/v1/models/digits"
    upstreams = ["http://127.0.0.1:8501"]
    protocol = "tensorflow"
    max_latency = "100ms"

`ADAPTIVE_BATCHING_ROUTES_DIGITS_MAX_LATENCY=50ms` is stronger than the file.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from adaptive_batching.errors import ConfigError, SettingError
from adaptive_batching.marshal.config.quantities import PREFIX, bare, quantity
from adaptive_batching.marshal.config.routes import make_route
from adaptive_batching.marshal.config.settings import RouteSettings
from adaptive_batching.marshal.config.toml_file import (
    TomlFile,
    read_table,
    read_toml,
    told,
    told_unknown,
)
from adaptive_batching.marshal.http.router import UNROUTED
from adaptive_batching.marshal.sidecar.route import Route

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class RoutesFile(TomlFile):
    """A file of routes that is read again when it changes."""

    def read(self) -> list[Route]:
        """Return the routes of the file as it is now, with the variables of the environment.

        Raises:
            ConfigError: It can't be read, or something in it is not as it should be.
        """
        self.see()
        return read_routes(self.path, os.environ)


def read_routes(path: Path, environment: Mapping[str, str]) -> list[Route]:
    """Read a file of routes.

    Args:
        path: The file.
        environment: Variables, of which those that begin with `PREFIX` count.

    Raises:
        ConfigError: The file can't be read, or something in it is not as it should be.
    """
    tables = _tables(path)
    _override(tables, environment)
    routes = [_route(f"routes.{name}", name, table) for name, table in tables.items()]
    by_prefix: dict[str, str] = {}
    for route in routes:
        other = by_prefix.setdefault(route.prefix.rstrip("/"), route.name)
        if other != route.name:
            msg = f"expected another one than that of routes.{other}, got {route.prefix!r}"
            raise ConfigError(f"routes.{route.name}.prefix: {msg}")
    return routes


def _tables(path: Path) -> dict[str, dict[str, Any]]:
    document = read_toml(path)
    tables = document.pop("routes", {})
    if document:
        raise ConfigError(f"{path}: expected [routes.NAME] only, got {', '.join(document)}")
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f"{path}: expected at least one table [routes.NAME]")
    for name, table in tables.items():
        if not isinstance(table, dict) or not _NAME.fullmatch(name):
            msg = "expected a table with a name of letters, digits, - and _"
            raise ConfigError(f"routes.{name}: {msg}")
        if name == UNROUTED:
            msg = f"expected another name, for {name!r} are in metrics the paths that no route has"
            raise ConfigError(f"routes.{name}: {msg}")
    return tables


def _override(tables: dict[str, dict[str, Any]], environment: Mapping[str, str]) -> None:
    """Put the values of variables into the tables."""
    fields = {field.name: field.type for field in msgspec.structs.fields(RouteSettings)}
    named: dict[str, list[tuple[str, str]]] = {}
    for name in tables:
        for field in fields:
            variable = f"{PREFIX}{_in_variables(name)}_{field.upper()}"
            named.setdefault(variable, []).append((name, field))
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in named:
            raise ConfigError(f"{variable}: {_told_unknown(variable, tables, fields)}")
        if len(named[variable]) > 1:
            meant = " and ".join(f"routes.{name}.{field}" for name, field in named[variable])
            raise ConfigError(f"{variable}: expected it to mean one thing, got {meant}: rename one")
        [(name, field)] = named[variable]
        listed = isinstance(bare(inspect.type_info(fields[field])), inspect.VarTupleType)
        try:
            value: object = text.split(",") if listed else text
            tables[name][field] = msgspec.convert(
                value, fields[field], strict=False, dec_hook=quantity
            )
        except msgspec.ValidationError as error:
            raise ConfigError(f"{variable}: {told(error, text)}") from error


def _in_variables(name: str) -> str:
    return re.sub("[^A-Za-z0-9]", "_", name).upper()


def _told_unknown(variable: str, names: Iterable[str], fields: Iterable[str]) -> str:
    """Return whether the route or the key of an unknown variable is wrong, in words."""
    said = variable.removeprefix(PREFIX)
    routes = {f"{_in_variables(name)}_": name for name in names}
    stem = max((each for each in routes if said.startswith(each)), key=len, default=None)
    if stem is None:
        known = ", ".join(each.removesuffix("_") for each in routes)
        return f"expected {PREFIX}NAME_KEY, where NAME is one of {known}, got {said!r}"
    keys = [field.upper() for field in fields]
    return f"routes.{routes[stem]}: {told_unknown(said.removeprefix(stem), keys)}"


def _route(where: str, name: str, table: dict[str, Any]) -> Route:
    settings = read_table(where, table, RouteSettings)
    try:
        return make_route(name, settings)
    except SettingError as error:
        raise ConfigError(f"{where}.{error.key}: {error.fault}") from error
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
