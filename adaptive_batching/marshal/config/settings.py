"""The settings of a route, from a file or from options, and the route that they make."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any

import msgspec

from adaptive_batching.core import Fairness
from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.config.quantities import (
    Bytes,
    Count,
    Delay,
    Duration,
    Header,
    Share,
    Text,
    means,
)
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules
from adaptive_batching.marshal.sidecar.route import Route, Terms
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.marshal.sidecar.upstream.tls import tls_context
from adaptive_batching.named_policy import check_named_policy
from adaptive_batching.wire.formats import PROTOCOLS, make_format

_PREFIX = re.compile(r"/[^\s\x00-\x1f\x7f?#]*")  # of what a request's line can hold


class RouteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a route: one table `[routes.NAME]`, or the options of the sidecar."""

    upstreams: Annotated[
        tuple[str, ...],
        msgspec.Meta(min_length=1),
        means(
            "Model servers that are alike: http://127.0.0.1:8000, https://… or unix:/run/m.sock;"
            " behind a name there may be several.",
            option="--upstream",
            metavar="URL",
            section="Most needed",
        ),
    ]
    protocol: Annotated[
        str,
        means(
            "What the server speaks; json and msgpack are any API with a list in and a list out.",
            choices=PROTOCOLS,
        ),
    ]
    prefix: Annotated[
        str,
        means(
            "Paths of the route; the longest that fits counts, with or without / at its end.",
            option=None,
            tunable=True,
        ),
    ] = "/"
    items: Annotated[
        str,
        means(
            "Of json, msgpack, bentoml: a JSON pointer to the list of a request: /inputs.",
            default="the whole body",
            section="Protocol",
        ),
    ] = ""
    results: Annotated[
        str,
        means(
            "Of json, msgpack: a JSON pointer to the list of an answer: /outputs.",
            default="the whole body",
        ),
    ] = ""
    secret_file: Annotated[
        Path | None,
        means("Of packed: holds what the application asks of a client that packs requests."),
    ] = None
    packed_path: Annotated[
        Text | None,
        means(
            "Of packed: where the application takes requests of all paths in one list, also PUT and"
            " PATCH.",
            metavar="PATH",
        ),
    ] = None
    max_latency: Annotated[
        Duration | None,
        means("From a request to its answer: 100ms.", tunable=True, section="Most needed"),
    ] = None
    max_batch_size: Annotated[
        Count, means("Items that are sent together.", tunable=True, section="Batching")
    ] = 64
    policy: Annotated[str, means("When a batch leaves.", tunable=True)] = "cork"
    partition_by: Annotated[
        tuple[Text, ...],
        means(
            "Keeps requests apart by this header as well, and sends it on: X-Tenant. Headers of"
            " identity (Authorization, Cookie, X-Api-Key, ...) do so in any case.",
            metavar="HEADER",
            tunable=True,
        ),
    ] = ()
    shared_headers: Annotated[
        tuple[Text, ...],
        means(
            "Does not keep requests apart by this header, and never sends it to the servers:"
            " Cookie.",
            option="--shared-header",
            metavar="HEADER",
            tunable=True,
        ),
    ] = ()
    concurrency: Annotated[
        int,
        msgspec.Meta(ge=1, le=1000),
        means("Batches at a time that each server takes.", section="Model servers"),
    ] = 1
    timeout: Annotated[
        Duration, means("How long a batch may take at its server.", tunable=True)
    ] = Duration(60.0)
    passed_timeout: Annotated[
        Duration,
        means(
            "How long a server may send nothing of an answer that is passed on, and a client take"
            " nothing of it.",
            tunable=True,
        ),
    ] = Duration(600.0)
    max_passed: Annotated[
        Count,
        means(
            "Requests that are passed on to a server at a time, WebSockets among them; others get"
            " 503.",
            tunable=True,
        ),
    ] = 1024
    idempotent: Annotated[
        bool,
        means(
            "Whether a request may be sent twice, to find the one that spoils a batch.",
            option="--idempotent/--not-idempotent",
            section="Batching",
        ),
    ] = True
    verify: Annotated[
        Share,
        means("Send so many requests alone as well, and batch no more where answers differ: 0.1%."),
    ] = Share(0.0)
    tenant_weights: Annotated[
        tuple[Text, ...],
        means(
            "A tenant's part of the servers, gold=3; 1 for all others; needs --tenant-header.",
            option="--tenant-weight",
            metavar="TENANT=WEIGHT",
            section="Tenants",
        ),
    ] = ()
    priority_header: Annotated[
        Header | None,
        means("In which requests say `high`, to go before others of their tenant: X-Priority."),
    ] = None
    ageing: Annotated[
        Delay | None,
        means(
            "A high-priority request overtakes only normal ones that have waited less than this.",
            default="a quarter of max_latency, or 1s",
        ),
    ] = None
    latency_from: Annotated[
        Path | None,
        means(
            "How long batches took, until that is learned: what `fit --save` wrote.",
            section="Batching",
        ),
    ] = None
    upstream_ca: Annotated[
        Path | None,
        means("PEM: the authorities that sign the servers' certificates.", section="Model servers"),
    ] = None
    upstream_cert: Annotated[Path | None, means("PEM: our own certificate, and its key.")] = None
    max_queue: Annotated[Count, means("Items that may wait.", tunable=True, section="Limits")] = (
        1024
    )
    max_body: Annotated[
        Bytes,
        means("Of a request that shares a batch; larger ones are passed on.", tunable=True),
    ] = Bytes(8 * 2**20)
    max_answer: Annotated[Bytes, means("Of a server's answer to a batch.", tunable=True)] = Bytes(
        256 * 2**20
    )
    body_timeout: Annotated[
        Duration, means("How long a client may take to send its body.", tunable=True)
    ] = Duration(10.0)


_declared: Any = msgspec.inspect.type_info(RouteSettings)
_ESSENTIAL = [each.name for each in _declared.fields if not each.type.extra.get("tunable")]
"""Settings that a running route can't change."""


def make_route(name: str, settings: RouteSettings, *, batch_fields: bool = False) -> Route:
    """Make a route from its settings, and read the files that they name.

    Args:
        name: What it is called.
        settings: What was said of it.
        batch_fields: Whether answers have the fields of KServe's agent.

    Raises:
        SettingError: Something is not as it should be, or does not go together.
    """
    check_named_policy(settings.policy)
    _check(settings)
    with _named("upstreams"):
        servers = [Location.parse(text) for text in settings.upstreams]
        twice = [str(server) for server, count in Counter(servers).items() if count > 1]
        if twice:
            raise ValueError(f"expected each server once, got {', '.join(twice)} again")
    with _named("secret_file"):
        secret = None if settings.secret_file is None else settings.secret_file.read_text().strip()
    tls = tls_context(settings.upstream_ca, settings.upstream_cert)
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
            HeaderRules(settings.partition_by, settings.shared_headers),
        ),
        prefix=settings.prefix,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
        passed_timeout=settings.passed_timeout,
        max_passed=settings.max_passed,
        max_answer=settings.max_answer,
        max_queue=settings.max_queue,
        policy=settings.policy,
        idempotent=settings.idempotent,
        tls=tls,
        rehearsed=_rehearsed(settings),
        verify=settings.verify,
        fairness=Fairness(_weights(settings.tenant_weights), settings.ageing),
        priority_header=settings.priority_header or "",
        batch_fields=batch_fields,
        unproven=settings.protocol == "packed" and secret is None and not on_sockets,
        source=(name, settings, secret),
        essence=(name, *(getattr(settings, key) for key in _ESSENTIAL), secret),
    )


def _rehearsed(settings: RouteSettings) -> list[tuple[int, float]]:
    """Return items and seconds of batches, from the file of a fitted model."""
    if settings.latency_from is None:
        return []
    # a third of the time that a sidecar takes to start, which most have no model for
    from adaptive_batching.simulation.fitting.model_file import read_model, rehearsed  # noqa: PLC0415

    with _named("latency_from"):
        return rehearsed(read_model(str(settings.latency_from)), settings.max_batch_size)


@contextmanager
def _named(key: str) -> Iterator[None]:
    """Turn errors about a value or its file into errors that name the setting."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise SettingError(key, str(error)) from error


def _check(settings: RouteSettings) -> None:
    if not _PREFIX.fullmatch(settings.prefix):
        msg = "expected a path that begins with /, and has no space and no query"
        raise SettingError("prefix", f"{msg}, got {settings.prefix!r}")
    if settings.verify and not settings.idempotent:
        raise SettingError(
            "verify", "expected idempotent requests, for it sends some of them twice"
        )
    if settings.ageing is not None and not settings.priority_header:
        raise SettingError(
            "ageing", "expected a priority header as well, by which requests overtake"
        )


def _check_encrypted(settings: RouteSettings, servers: Sequence[Location]) -> None:
    """Check that settings of TLS have a server with https://."""
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
    """Read a tenant and its weight: `gold=3`."""
    tenant, equals, weight = text.rpartition("=")
    try:
        number = float(weight) if equals else nan
    except ValueError:
        number = nan
    if not 0 < number < inf:
        msg = f"expected a tenant and its positive weight, gold=3, got {text!r}"
        raise SettingError("tenant_weights", msg)
    return tenant, number
