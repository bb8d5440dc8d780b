"""The route that settings make, once they are checked to go together."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec

from adaptive_batching.allowed_sizes import largest_batch
from adaptive_batching.core import Costs, Fairness, Limits
from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.config.quantities import written
from adaptive_batching.marshal.config.settings import RouteSettings
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules
from adaptive_batching.marshal.sidecar.route import Route, Terms
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.marshal.sidecar.upstream.tls import tls_context
from adaptive_batching.named_policy import check_named_policy
from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.formats import make_format
from adaptive_batching.wire.item_cost import ItemCost, parse_item_cost

_PREFIX = re.compile(r"/[^\s\x00-\x1f\x7f?#]*")  # of what a request's line can hold
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
    servers = _servers(settings.upstreams)
    secret = _secret(settings.secret_file)
    tls = tls_context(settings.upstream_ca, settings.upstream_cert)
    _check_encrypted(settings, servers)
    form = _form(settings, secret)
    item_cost = _item_cost(settings, form)
    padded = settings.padded is not False  # most servers of items that differ pad them
    costs = None if item_cost is None else Costs(padded, settings.max_batch_cost or inf)
    sizes = settings.sizes or ()
    most = largest_batch(settings.max_batch_size, sizes)
    return Route(
        name,
        servers,
        form,
        _terms(settings, most),
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
        unproven=settings.protocol == "packed"
        and secret is None
        and not all(server.socket for server in servers),
        source=(name, settings, secret),
        essence=(name, *(getattr(settings, key) for key in _ESSENTIAL), secret),
    )


def _servers(texts: Sequence[str]) -> list[Location]:
    """Read where the servers are, each of them once."""
    with _named("upstreams"):
        servers = [Location.parse(text) for text in texts]
        twice = [str(server) for server, count in Counter(servers).items() if count > 1]
        if twice:
            raise ValueError(f"expected each server once, got {', '.join(twice)} again")
    return servers


def _secret(path: Path | None) -> str | None:
    """Read the secret that the servers share with the sidecar."""
    with _named("secret_file"):
        return None if path is None else path.read_text().strip()


def _form(settings: RouteSettings, secret: str | None) -> Format[Any]:
    """Make the format of the servers' protocol, which can fill batches up if they are to be."""
    form = make_format(
        settings.protocol, settings.items, settings.results, secret, settings.packed_path
    )
    _check_padding(settings, form)
    return form


def _terms(settings: RouteSettings, max_batch_size: int) -> Terms:
    """Return what the settings ask of clients."""
    return Terms(
        # plain: the dashboard writes it as JSON, which knows no kinds of numbers
        inf if settings.max_latency is None else float(settings.max_latency),
        max_batch_size,
        settings.max_body,
        settings.body_timeout,
        HeaderRules(settings.partition_by, settings.shared_headers),
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
    for key in ("padded", "max_batch_cost"):
        given = getattr(settings, key)
        if given is not None:
            expected = "expected cost (--cost) beside it, such as chars"
            raise SettingError(key, f"{expected}, got {written(given)} alone")


def _check_padding(settings: RouteSettings, form: Format[Any]) -> None:
    """Check that batches can be filled up, if they are to be."""
    if not settings.pad_to_sizes:
        return
    if not settings.sizes:
        raise SettingError("pad_to_sizes", "expected sizes as well, such as 1,2,4,8, got none")
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
