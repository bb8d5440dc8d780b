"""The settings of a route, from a file or from options."""

from pathlib import Path
from typing import Annotated

import msgspec

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
from adaptive_batching.wire.formats import PROTOCOLS


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
            "Whether the sidecar fills batches up to the next of the sizes, with one item "
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
        bool | None,
        means(
            "Whether the server pads the items of a batch to the longest, so that a batch costs "
            "its items times the largest cost, not the sum.",
            option="--padded/--no-padded",
            default="true, beside a cost",
        ),
    ] = None
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
