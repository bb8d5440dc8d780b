"""Routes as they are written down: TOML tables, and variables of the environment over them.

    [routes.digits]
    prefix = "/v1/models/digits"
    upstreams = ["http://127.0.0.1:8501"]
    protocol = "tensorflow"
    max_latency = "100ms"

`ADAPTIVE_BATCHING_ROUTES_DIGITS_MAX_LATENCY=50ms` is stronger than the file.
"""

import re
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated, Any

import msgspec

from adaptive_batching.core import Fairness, make_policy
from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.route import PARTITION_BY, Route, Terms
from adaptive_batching.marshal.toml_file import Bytes, Duration, Share, quantity, read_toml
from adaptive_batching.simulation.model_file import read_model, rehearsed
from adaptive_batching.simulation.servers import Server
from adaptive_batching.wire.formats import make_format
from adaptive_batching.workers.upstream_addresses import Location
from adaptive_batching.workers.upstream_tls import tls_context

PREFIX = "ADAPTIVE_BATCHING_ROUTES_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")

Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class RouteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[routes.NAME]`; the keys mean what the options of the sidecar mean."""

    upstreams: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    protocol: str
    prefix: Annotated[str, msgspec.Meta(pattern="^/")] = "/"
    items: str = ""
    results: str = ""
    secret_file: Text | None = None
    packed_path: Text | None = None
    max_latency: Duration | None = None
    max_batch_size: Count = 64
    policy: str = "cork"
    partition_by: tuple[Text, ...] = PARTITION_BY
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    timeout: Duration = Duration(60.0)
    idempotent: bool = True
    verify: Share = Share(0.0)
    tenant_weights: tuple[Text, ...] = ()
    priority_header: str = ""
    ageing: Duration | None = None
    latency_from: Text | None = None
    upstream_ca: Text | None = None
    upstream_cert: Text | None = None
    max_queue: Count = 1024
    max_body: Bytes = Bytes(8 * 2**20)
    max_answer: Bytes = Bytes(256 * 2**20)
    body_timeout: Duration = Duration(10.0)


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
        other = by_prefix.setdefault(route.prefix, route.name)
        if other != route.name:
            msg = f"expected another one than that of routes.{other}, got {route.prefix!r}"
            raise ConfigError(f"routes.{route.name}.prefix: {msg}")
    return routes


def make_route(
    name: str,
    settings: RouteSettings,
    secret: str | None,
    known: Server | None,
    *,
    batch_fields: bool = False,
) -> Route:
    """Make a route of what was said of it.

    Args:
        name: What it is called.
        settings: All but what its files hold.
        secret: What its secret file holds.
        known: How long batches take, by the file that says so.
        batch_fields: Whether answers have the fields of KServe's agent.

    Raises:
        ValueError: Something is not as it should be, or does not go together.
    """
    return Route(
        name,
        [Location.parse(text) for text in settings.upstreams],
        make_format(
            settings.protocol, settings.items, settings.results, secret, settings.packed_path
        ),
        Terms(
            inf if settings.max_latency is None else settings.max_latency,
            settings.max_batch_size,
            settings.max_body,
            settings.body_timeout,
            settings.partition_by,
        ),
        prefix=settings.prefix,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        max_answer=settings.max_answer,
        max_queue=settings.max_queue,
        policy=settings.policy,
        idempotent=settings.idempotent,
        tls=tls_context(_path(settings.upstream_ca), _path(settings.upstream_cert)),
        rehearsed=rehearsed(known, settings.max_batch_size),
        verify=settings.verify,
        fairness=Fairness(dict(map(_weight, settings.tenant_weights)), settings.ageing),
        priority_header=settings.priority_header,
        batch_fields=batch_fields,
        source=(name, settings, secret),
    )


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
    return tables


def _override(tables: dict[str, dict[str, Any]], environment: Mapping[str, str]) -> None:
    """Put what variables say into the tables."""
    fields = {field.name: field.type for field in msgspec.structs.fields(RouteSettings)}
    named = {
        f"{PREFIX}{re.sub('[^A-Za-z0-9]', '_', name).upper()}_{field.upper()}": (name, field)
        for name in tables
        for field in fields
    }
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if variable not in named:
            raise ConfigError(
                f"{variable}: expected {PREFIX}NAME_KEY with a route and key there is"
            )
        name, field = named[variable]
        listed = field in {"upstreams", "partition_by", "tenant_weights"}
        try:
            value: object = text.split(",") if listed else text
            tables[name][field] = msgspec.convert(
                value, fields[field], strict=False, dec_hook=quantity
            )
        except msgspec.ValidationError as error:
            raise ConfigError(f"{variable}: {error}") from error


def _route(where: str, name: str, table: dict[str, Any]) -> Route:
    try:
        settings = msgspec.convert(table, RouteSettings, dec_hook=quantity)
        return _made(name, settings)
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at `$.")
        raise ConfigError(f"{where}{key and '.' + key.rstrip('`')}: {message}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _made(name: str, settings: RouteSettings) -> Route:
    make_policy(settings.policy)
    file = settings.secret_file
    secret = None if file is None else Path(file).read_text().strip()
    known = None if settings.latency_from is None else read_model(settings.latency_from)
    return make_route(name, settings, secret, known)


def _weight(text: str) -> tuple[str, float]:
    """Read `gold=3`: a tenant and its weight."""
    tenant, equals, weight = text.rpartition("=")
    try:
        return tenant, float(weight if equals else "")
    except ValueError:
        msg = f"tenant_weights: expected a tenant and its weight, gold=3, got {text!r}"
        raise ValueError(msg) from None


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
