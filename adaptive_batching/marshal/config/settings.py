"""The settings of a route, from a file or from options, and the route that they make."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any

import msgspec

from adaptive_batching.allowed_sizes import largest_batch
from adaptive_batching.core import Costs, Fairness, Limits
from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.config.quantities import (
    Bytes,
    Count,
    Delay,
    Duration,
    Header,
    Share,
    Sizes,
    Text,
    means,
)
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules
from adaptive_batching.marshal.sidecar.route import Route, Terms
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.marshal.sidecar.upstream.tls import tls_context
from adaptive_batching.named_policy import check_named_policy
from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.formats import PROTOCOLS, make_format
from adaptive_batching.wire.item_cost import ItemCost, parse_item_cost

_PREFIX = re.compile(r"/[^\s\x00-\x1f\x7f?#]*")  # of what a request's line can hold


class RouteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a route: one table `[routes.NAME]`, or the options of the sidecar."""

    upstreams: Annotated[
        tuple[str, ...],
        msgspec.Meta(min_length=1),
        means(
            "Equal model servers, such as http://127.0.0.1:8000, https://… or unix:/run/m.sock; a "
            "name may have several addresses.",
            option="--upstream",
            metavar="URL",
            section="Most needed",
        ),
    ]
    protocol: Annotated[
        str,
        means(
            "Protocol of the server; json and msgpack are for any API that takes a list and "
            "answers with a list.",
            choices=PROTOCOLS,
        ),
    ]
    prefix: Annotated[
        str,
        means(
            "Beginning of the route's paths, with or without / at its end; the route with the "
            "longest that fits gets a request.",
            option=None,
            tunable=True,
        ),
    ] = "/"
    items: Annotated[
        str,
        means(
            "JSON pointer to the list of a request, such as /inputs; for json, msgpack and "
            "bentoml.",
            default="the whole body",
            section="Protocol",
        ),
    ] = ""
    results: Annotated[
        str,
        means(
            "JSON pointer to the list of an answer, such as /outputs; for json and msgpack.",
            default="the whole body",
        ),
    ] = ""
    secret_file: Annotated[
        Path | None,
        means("File with the secret that the application shares with the sidecar; for packed."),
    ] = None
    packed_path: Annotated[
        Text | None,
        means(
            "Path where the application takes requests of all paths in one list, also PUT and "
            "PATCH; for packed.",
            metavar="PATH",
        ),
    ] = None
    max_latency: Annotated[
        Duration | None,
        means(
            "Longest time from a request's arrival to its answer, such as 100ms.",
            tunable=True,
            section="Most needed",
        ),
    ] = None
    max_batch_size: Annotated[
        Count | None,
        means(
            "Items in a batch at most.",
            default="64, or the largest of the sizes",
            tunable=True,
            section="Batching",
        ),
    ] = None
    sizes: Annotated[
        Sizes | None,
        means(
            "Items of the batches that the server pads others to, as compiled models do; a batch "
            "leaves with as many where that pays.",
            metavar="N,N,...",
            tunable=True,
        ),
    ] = None
    pad_to_sizes: Annotated[
        bool,
        means(
            "Whether the sidecar fills batches up to the next of the sizes, with their last item "
            "again and again, for a server that takes no others.",
            option="--pad-to-sizes/--no-pad-to-sizes",
            tunable=True,
        ),
    ] = False
    cost: Annotated[
        Text | None,
        means(
            "What an item costs, where items don't cost the same: its bytes, its chars, or where "
            "it stands in the item: /tokens:length for the length of a list or text, /size for a "
            "number.",
            metavar="bytes|chars|/POINTER[:length]",
        ),
    ] = None
    padded: Annotated[
        bool,
        means(
            "Whether the server pads the items of a batch to the longest, so that a batch costs "
            "its items times the largest cost, not the sum.",
            option="--padded/--no-padded",
        ),
    ] = True
    max_batch_cost: Annotated[
        Count | None,
        means(
            "Cost of a batch at most, in the unit of --cost; a request that costs more is cut.",
            tunable=True,
        ),
    ] = None
    policy: Annotated[str, means("Policy that decides when a batch leaves.", tunable=True)] = "cork"
    partition_by: Annotated[
        tuple[Text, ...],
        means(
            "Requests share a batch only if this header is equal, such as X-Tenant; it is sent "
            "on. Headers of identity (Authorization, Cookie, X-Api-Key, ...) keep requests apart "
            "in any case.",
            metavar="HEADER",
            tunable=True,
        ),
    ] = ()
    shared_headers: Annotated[
        tuple[Text, ...],
        means(
            "Requests share a batch even if this header differs, such as Cookie; it is never sent "
            "to the servers.",
            option="--shared-header",
            metavar="HEADER",
            tunable=True,
        ),
    ] = ()
    concurrency: Annotated[
        int,
        msgspec.Meta(ge=1, le=1000),
        means("Batches that each server runs at a time.", section="Model servers"),
    ] = 1
    timeout: Annotated[
        Duration, means("Longest time that a server may take for a batch.", tunable=True)
    ] = Duration(60.0)
    passed_timeout: Annotated[
        Duration,
        means(
            "Longest pause in an answer that is passed on, of the server or of the client that "
            "reads it.",
            tunable=True,
        ),
    ] = Duration(600.0)
    max_passed: Annotated[
        Count,
        means(
            "Requests that are passed on to a server at a time, WebSockets included; further ones "
            "get 503.",
            tunable=True,
        ),
    ] = 1024
    idempotent: Annotated[
        bool,
        means(
            "Whether a request may be sent twice, to find the failing one of a batch.",
            option="--idempotent/--not-idempotent",
            section="Batching",
        ),
    ] = True
    verify: Annotated[
        Share,
        means(
            "Share of requests that are sent alone as well, such as 0.1%; if an answer differs, "
            "its path is batched no more."
        ),
    ] = Share(0.0)
    tenant_weights: Annotated[
        tuple[Text, ...],
        means(
            "Weight of a tenant's share of the servers, such as gold=3; other tenants have 1. "
            "Needs --tenant-header.",
            option="--tenant-weight",
            metavar="TENANT=WEIGHT",
            section="Tenants",
        ),
    ] = ()
    priority_header: Annotated[
        Header | None,
        means(
            "Header such as X-Priority; requests with the value `high` go before others of their "
            "tenant."
        ),
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
            "File that `fit --save` wrote: how long batches take, until the sidecar has learned "
            "it.",
            section="Batching",
        ),
    ] = None
    upstream_ca: Annotated[
        Path | None,
        means(
            "PEM file of the authorities that sign the servers' certificates.",
            section="Model servers",
        ),
    ] = None
    upstream_cert: Annotated[
        Path | None, means("PEM file of the sidecar's own certificate and its key.")
    ] = None
    max_queue: Annotated[
        Count,
        means("Items that may wait; further requests are refused.", tunable=True, section="Limits"),
    ] = 1024
    max_body: Annotated[
        Bytes,
        means(
            "Largest body of a request that shares a batch; larger ones are passed on.",
            tunable=True,
        ),
    ] = Bytes(8 * 2**20)
    max_answer: Annotated[Bytes, means("Largest answer of a server to a batch.", tunable=True)] = (
        Bytes(256 * 2**20)
    )
    body_timeout: Annotated[
        Duration, means("Longest time that a client may take to send its body.", tunable=True)
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
    form = make_format(
        settings.protocol, settings.items, settings.results, secret, settings.packed_path
    )
    _check_padding(settings, form)
    item_cost = _item_cost(settings, form)
    costs = None if item_cost is None else Costs(settings.padded, settings.max_batch_cost or inf)
    sizes = settings.sizes or ()
    most = largest_batch(settings.max_batch_size, sizes)
    return Route(
        name,
        servers,
        form,
        Terms(
            # plain: the dashboard writes it as JSON, which knows no kinds of numbers
            inf if settings.max_latency is None else float(settings.max_latency),
            most,
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
        item_cost=item_cost,
        sizes=sizes,
        pads=settings.pad_to_sizes,
        costs=costs,
        policy=settings.policy,
        idempotent=settings.idempotent,
        tls=tls,
        rehearsed=_rehearsed(settings.latency_from, Limits(most, costs=costs, sizes=sizes)),
        verify=settings.verify,
        fairness=Fairness(_weights(settings.tenant_weights), settings.ageing),
        priority_header=settings.priority_header or "",
        batch_fields=batch_fields,
        unproven=settings.protocol == "packed" and secret is None and not on_sockets,
        source=(name, settings, secret),
        essence=(name, *(getattr(settings, key) for key in _ESSENTIAL), secret),
    )


def _rehearsed(path: Path | None, limits: Limits) -> Sequence[tuple[int, float, float]]:
    """Return items, seconds and costs of batches, from the file of a fitted model."""
    if path is None:
        return []
    # a third of the time that a sidecar takes to start, which most have no model for
    from adaptive_batching.simulation.fitting.model_file import read_model, rehearsed  # noqa: PLC0415

    with _named("latency_from"):
        return rehearsed(read_model(str(path)), limits)


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
    _check_cost(settings)
    if settings.ageing is not None and not settings.priority_header:
        raise SettingError(
            "ageing", "expected a priority header as well, by which requests overtake"
        )


def _check_cost(settings: RouteSettings) -> None:
    """Check that no setting of costs stands without a cost."""
    if settings.cost is not None:
        return
    if settings.max_batch_cost is not None:
        raise SettingError("max_batch_cost", "expected cost (--cost) beside it, such as chars")
    if not settings.padded:
        raise SettingError("padded", "expected cost (--cost) beside it, such as chars")


def _check_padding(settings: RouteSettings, form: Format[Any]) -> None:
    """Check that batches can be filled up, if they are to be."""
    if not settings.pad_to_sizes:
        return
    if not settings.sizes:
        raise SettingError("pad_to_sizes", "expected sizes as well, such as 1,2,4,8")
    if not settings.idempotent:
        msg = "expected idempotent requests, for it repeats some of their items"
        raise SettingError("pad_to_sizes", msg)
    if not form.can_repeat:
        msg = f"expected a protocol with rows, got {settings.protocol}, whose items are requests"
        raise SettingError("pad_to_sizes", msg)


def _item_cost(settings: RouteSettings, form: Format[Any]) -> ItemCost | None:
    if settings.cost is None:
        return None
    if settings.cost != "bytes" and not form.has_texts:
        msg = f"expected bytes with {settings.protocol}, whose items are rows of tensors"
        raise SettingError("cost", f"{msg}, got {settings.cost!r}")
    return parse_item_cost(settings.cost)


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
