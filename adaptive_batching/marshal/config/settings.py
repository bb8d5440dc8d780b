"""What is said of a route, whether in a file or by options, and the route that it makes."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import Annotated

import msgspec

from adaptive_batching.core import Fairness
from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.config.toml_file import Bytes, Duration, Share
from adaptive_batching.marshal.http.checks import check_header_name, check_seconds
from adaptive_batching.marshal.sidecar.batch_key import partition
from adaptive_batching.marshal.sidecar.route import Route, Terms
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.marshal.sidecar.upstream.tls import tls_context
from adaptive_batching.simulation.fitting.model_file import rehearsed
from adaptive_batching.simulation.servers.servers import Server
from adaptive_batching.wire.formats import make_format

Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
_PREFIX = re.compile(r"/[^\s\x00-\x1f\x7f?#]*")  # of what a request's line can hold


class RouteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[routes.NAME]`; the keys mean what the options of the sidecar mean."""

    upstreams: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    protocol: str
    prefix: str = "/"
    items: str = ""
    results: str = ""
    secret_file: Text | None = None
    packed_path: Text | None = None
    max_latency: Duration | None = None
    max_batch_size: Count = 64
    policy: str = "cork"
    partition_by: tuple[Text, ...] = ()
    shared_headers: tuple[Text, ...] = ()
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    timeout: Duration = Duration(60.0)
    idempotent: bool = True
    verify: Share = Share(0.0)
    tenant_weights: tuple[Text, ...] = ()
    priority_header: str | None = None
    ageing: Duration | None = None
    latency_from: Text | None = None
    upstream_ca: Text | None = None
    upstream_cert: Text | None = None
    max_queue: Count = 1024
    max_body: Bytes = Bytes(8 * 2**20)
    max_answer: Bytes = Bytes(256 * 2**20)
    body_timeout: Duration = Duration(10.0)


_TUNABLE = frozenset(
    {
        *("prefix", "max_latency", "max_batch_size", "policy", "partition_by", "shared_headers"),
        *("timeout", "max_queue", "max_body", "max_answer", "body_timeout"),
    }
)


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
        SettingError: Something is not as it should be, or does not go together.
    """
    _check(settings)
    with named("upstreams"):
        servers = [Location.parse(text) for text in settings.upstreams]
        twice = [str(server) for server, count in Counter(servers).items() if count > 1]
        if twice:
            raise ValueError(f"expected each server once, got {', '.join(twice)} again")
    tls = tls_context(_path(settings.upstream_ca), _path(settings.upstream_cert))
    _check_encrypted(settings, servers)
    on_sockets = all(server.socket for server in servers)
    return Route(
        name,
        servers,
        make_format(
            settings.protocol, settings.items, settings.results, secret, settings.packed_path
        ),
        Terms(
            # plain: the dashboard writes it as JSON, which knows no kinds of numbers
            inf if settings.max_latency is None else float(settings.max_latency),
            settings.max_batch_size,
            settings.max_body,
            settings.body_timeout,
            partition(settings.partition_by, settings.shared_headers),
        ),
        prefix=settings.prefix,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        max_answer=settings.max_answer,
        max_queue=settings.max_queue,
        policy=settings.policy,
        idempotent=settings.idempotent,
        tls=tls,
        rehearsed=rehearsed(known, settings.max_batch_size),
        verify=settings.verify,
        fairness=Fairness(_weights(settings.tenant_weights), settings.ageing),
        priority_header=settings.priority_header or "",
        batch_fields=batch_fields,
        unproven=settings.protocol == "packed" and secret is None and not on_sockets,
        source=(name, settings, secret),
        essence=(name, _essence(settings), secret),
    )


@contextmanager
def named(key: str) -> Iterator[None]:
    """Say of which setting it is that what it says, or its file, is not as it should be."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SettingError(key, str(error)) from error


def _essence(settings: RouteSettings) -> Hashable:
    """What is said besides that which `Relay.retune` can change."""
    said = msgspec.structs.asdict(settings)
    return tuple(value for key, value in said.items() if key not in _TUNABLE)


def _check(settings: RouteSettings) -> None:
    for name in ("max_latency", "timeout", "body_timeout"):
        if (seconds := getattr(settings, name)) is not None:
            check_seconds(name, seconds)
    if not _PREFIX.fullmatch(settings.prefix):
        msg = "expected a path that begins with /, and has no space and no query"
        raise SettingError("prefix", f"{msg}, got {settings.prefix!r}")
    if settings.priority_header is not None:
        check_header_name("priority_header", settings.priority_header)
    if settings.verify > 1:
        raise SettingError("verify", f"expected at most 100%, got {settings.verify:.0%}")
    if settings.verify and not settings.idempotent:
        raise SettingError(
            "verify", "expected idempotent requests, for it sends some of them twice"
        )
    if settings.ageing is not None and not settings.priority_header:
        raise SettingError("ageing", "expected a priority header as well, which says who is ahead")


def _check_encrypted(settings: RouteSettings, servers: Sequence[Location]) -> None:
    """See to it that what is said of TLS is of use to a server."""
    if any(server.origin.scheme == "https" for server in servers):
        return
    for key in ("upstream_ca", "upstream_cert"):
        if getattr(settings, key) is not None:
            got = ", ".join(map(str, servers))
            raise SettingError(key, f"expected a server with https:// as well, got {got}")


def _weights(said: Sequence[str]) -> dict[Hashable, float]:
    weights: dict[Hashable, float] = {}
    for tenant, weight in map(_weight, said):
        if weights.setdefault(tenant, weight) != weight:
            msg = f"expected one weight for {tenant}, got {weights[tenant]:g} and {weight:g}"
            raise SettingError("tenant_weights", msg)
    return weights


def _weight(text: str) -> tuple[str, float]:
    """Read `gold=3`: a tenant and its weight."""
    tenant, equals, weight = text.rpartition("=")
    try:
        number = float(weight) if equals else nan
    except ValueError:
        number = nan
    if not 0 < number < inf:
        msg = f"expected a tenant and its positive weight, gold=3, got {text!r}"
        raise SettingError("tenant_weights", msg)
    return tenant, number


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
