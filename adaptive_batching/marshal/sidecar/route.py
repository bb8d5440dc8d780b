"""Which requests go to which model servers, and what is asked of them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import inf
from ssl import SSLContext
from typing import Any

from adaptive_batching.core import Costs, Fairness, Limits, PolicyLike
from adaptive_batching.marshal.sidecar.batch_key import HeaderRules
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.wire.exchange import Format
from adaptive_batching.wire.item_cost import ItemCost


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked of the clients of a route.

    Attributes:
        max_latency: Seconds from a request's arrival to its answer; infinite for no limit.
        max_batch_size: Items that are sent together.
        max_body: Bytes that a request may have to share a batch; larger ones are passed on.
        body_timeout: Seconds that a body may take to arrive.
        headers: Which headers keep requests apart, and which are sent on.
    """

    max_latency: float = inf
    max_batch_size: int = 64
    max_body: int = 8 * 2**20
    body_timeout: float = 10.0
    headers: HeaderRules = field(default_factory=HeaderRules)


@dataclass(frozen=True, slots=True)
class Route:
    """Requests of one protocol for some model servers that are alike.

    Attributes:
        name: What it is called in metrics.
        servers: Where they are.
        form: Their protocol.
        terms: What is asked of clients.
        prefix: With which its paths begin; it stays on them.
        concurrency: Batches at a time that each server takes.
        timeout: Seconds that a batch may take.
        passed_timeout: Seconds in which something of a request that is passed on has to move.
        max_passed: Requests that are passed on to a server at a time.
        max_answer: Bytes that the body of an answer to a batch may have.
        max_queue: Items that may wait.
        item_cost: What an item costs; None if all cost the same.
        costs: How that adds up; None if all cost the same.
        sizes: Items of the batches that the servers' model runs; empty if it runs any.
        pads: Whether batches are filled up to these before they are sent.
        policy: When a batch leaves.
        idempotent: Whether a batch that may have been run may be sent again, as a rule in halves.
        tls: For servers that are reached by TLS; None for the certificates of the system.
        rehearsed: What is known of batches already: items, seconds and cost.
        verify: Share of the requests in batches that are sent alone as well, to compare.
        fairness: How tenants share the servers, where they are told apart, or priorities.
        priority_header: That says `high` of requests which go before others of their tenant; empty
            if none do.
        batch_fields: Whether answers say in their bodies which batch they were in, as those of
            KServe's agent do.
        unproven: Whether its servers will not accept what is packed, having no proof whose it is.
        source: What it was made of: two of equal sources do the same.
        essence: The part of it that can't change while batches are under way: where two are equal,
            the runtime of the one can go on as that of the other.
    """

    name: str
    servers: Sequence[Location]
    form: Format[Any]
    terms: Terms = field(default_factory=Terms)
    prefix: str = "/"
    concurrency: int = 1
    timeout: float = 60.0
    passed_timeout: float = 600.0
    max_passed: int = 1024
    max_answer: int = 256 * 2**20
    max_queue: int = 1024
    item_cost: ItemCost | None = None
    costs: Costs | None = None
    sizes: tuple[int, ...] = ()
    pads: bool = False
    policy: PolicyLike = "cork"
    idempotent: bool = True
    tls: SSLContext | None = None
    rehearsed: Sequence[tuple[int, float, float]] = ()
    verify: float = 0.0
    fairness: Fairness = field(default_factory=Fairness)
    priority_header: str = ""
    batch_fields: bool = False
    unproven: bool = False
    source: Hashable = None
    essence: Hashable = None

    @property
    def limits(self) -> Limits:
        """What its batches and its queue keep to."""
        terms = self.terms
        return Limits(
            terms.max_batch_size, terms.max_latency, self.max_queue, self.costs, self.sizes
        )

    @property
    def padded_to(self) -> tuple[int, ...]:
        """Items to which batches are filled up before they are sent; empty if none is."""
        return self.sizes if self.pads else ()

    def covers(self, path: str) -> bool:
        """Whether a path begins with its prefix, and goes on with a new step or a verb if at all.

        A verb is what custom methods end with, `:predict` of `/v1/models/digits:predict`.
        """
        rest = path.removeprefix(self.prefix)
        return len(rest) < len(path) and (
            self.prefix.endswith("/") or not rest or rest.startswith(("/", ":"))
        )
