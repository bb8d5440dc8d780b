"""Makes endpoints of what a service says of them and of their handlers or pipelines."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptive_batching.asked_limits import Asked
from adaptive_batching.configured_handler import check_takes_a_list, configured
from adaptive_batching.core import PolicyLike
from adaptive_batching.item_costs import CostOf
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.payloads.contract import Contract, Declaration
from adaptive_batching.pipeline import Pipeline
from adaptive_batching.workers.place import check_reaches_workers, place
from adaptive_batching.workers.placement import Placement


@dataclass(frozen=True, slots=True)
class AskedBodies:
    """What is said of an endpoint's bodies.

    Attributes:
        declaration: What they hold.
        max_body: Bytes that one may have.
        key: The name of a header, or what says the key of an item; None for no keys.
        many: Whether a request brings a list of items.
        cost: `"bytes"`, or what says what an item costs; None if all cost the same.
        examples: Items; None for those of the handler.
    """

    declaration: Declaration
    max_body: int
    key: str | Callable[[Any], Hashable] | None
    many: bool
    cost: str | CostOf | None = None
    examples: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class AskedWorkers:
    """What is said of an endpoint's workers.

    Attributes:
        workers: How many batches run at a time, or where, or with which other endpoints.
        cpus: The core, or the list of cores, of each process.
        policy: When a batch leaves.
        init_args: Keyword arguments with which each worker builds a class.
        pad: What fills batches up; None for their last item.
    """

    workers: int | str | Placement | SharedWorkers
    cpus: Sequence[int | Sequence[int]] | None
    policy: PolicyLike
    init_args: Mapping[str, Any] | None
    pad: object

    def placement(self, handler: Any) -> Placement | SharedWorkers:
        """Where a handler runs.

        Raises:
            ValueError: It can't run there, or not as it is asked.
        """
        if isinstance(self.workers, SharedWorkers):
            self.workers.placement([handler])
            return self.workers
        placement = place(handler, self.workers, self.cpus)
        check_reaches_workers(placement, self.init_args, self.pad)
        return placement


def make_endpoint(
    path: str,
    handler: Callable[..., Any],
    asked: Asked,
    bodies: AskedBodies,
    workers: AskedWorkers,
    *,
    idempotent: bool,
) -> Endpoint:
    """Make the endpoint of a handler; see `Service.endpoint`."""
    limits = asked.limits
    placement = workers.placement(handler)
    runs = configured(handler, workers.init_args, padding=asked.padding, costs=limits.costs)
    check_takes_a_list(runs)
    contract = Contract.of(bodies.declaration, handler, handler)
    if bodies.many:
        contract.check_lists()
    examples = bodies.examples
    if examples is None:
        examples = getattr(handler, "examples", ())
    return Endpoint(
        path=path,
        handler=handler,
        placement=placement,
        limits=limits,
        policy=workers.policy,
        max_body=bodies.max_body,
        idempotent=idempotent,
        contract=contract,
        examples=contract.bodies(examples),
        runs=runs,
        key=bodies.key,
        many=bodies.many,
        cost=bodies.cost,
    )


def make_pipeline_endpoint(
    path: str, pipeline: Pipeline[Any, Any], bodies: AskedBodies
) -> PipelineEndpoint:
    """Make the endpoint of a pipeline; see `Service.add_pipeline`."""
    first, last = pipeline.stages[0], pipeline.stages[-1]
    contract = Contract.of(
        bodies.declaration,
        first.handler,
        last.handler,
        first_takes_one=first.takes_one,
        last_takes_one=last.takes_one,
    )
    if contract.has_choice:
        asked = bodies.declaration
        expected = "codec: expected one for a pipeline"
        raise ValueError(f"{expected}, got {asked.codec} and {asked.result_codec}")
    if bodies.many:
        contract.check_lists()
    return PipelineEndpoint(
        path=path,
        pipeline=pipeline,
        max_body=bodies.max_body,
        contract=contract,
        examples=contract.bodies(first.examples),
        key=bodies.key,
        many=bodies.many,
    )
