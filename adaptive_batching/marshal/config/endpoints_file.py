"""A file with the policy and the limits of endpoints, read again while they are at work.

    [endpoints."/predict"]
    max_latency = "100ms"
    max_batch_size = 32
    policy = "greedy"

What the file does not say is as the module of the service says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, TypeVar

import msgspec

from adaptive_batching.allowed_sizes import largest_batch
from adaptive_batching.core import Costs, Limits
from adaptive_batching.errors import ConfigError, SettingError
from adaptive_batching.marshal.config.quantities import (
    Bytes,
    Count,
    Duration,
    Sizes,
    Text,
    means,
    written,
)
from adaptive_batching.marshal.config.toml_file import TomlFile, read_table, read_toml
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from adaptive_batching.named_policy import check_named_policy

T = TypeVar("T")
Cost = Annotated[float, msgspec.Meta(gt=0)]


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[endpoints."/path"]`; its keys are arguments of `Service.endpoint`."""

    max_latency: Annotated[
        Duration | None, means("Longest time from a request's arrival to its answer.")
    ] = None
    max_batch_size: Annotated[Count | None, means("Items in a batch at most.")] = None
    sizes: Annotated[
        Sizes | None,
        means(
            "Items of the batches that the model pads others to by itself, of an endpoint whose "
            "module names none; the largest is then max_batch_size, unless the file says another."
        ),
    ] = None
    max_queue: Annotated[
        Count | None, means("Items that may wait; further requests are refused.")
    ] = None
    max_batch_cost: Annotated[
        Cost | None, means("Cost of a batch at most, of an endpoint whose items have one.")
    ] = None
    max_body: Annotated[Bytes | None, means("Largest body of a request.")] = None
    policy: Annotated[Text | None, means("Policy that decides when a batch leaves.")] = None

    def applied(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with the settings of the file.

        Raises:
            SettingError: There is no such policy, or it is not the endpoint's alone; or items have
                no cost, or the handler takes no batches of that size, or is filled up to others.
            ValueError: A limit can't be.
        """
        if self.policy is not None:
            check_named_policy(self.policy)
            if isinstance(endpoint.placement, SharedWorkers):
                raise SettingError("policy", "expected none, for it is that of SharedWorkers")
        limits = self._sized(endpoint.limits)
        return replace(
            endpoint,
            limits=replace(
                limits,
                max_latency=float(_said(self.max_latency, limits.max_latency)),
                max_queue=_said(self.max_queue, limits.max_queue),
                costs=self._costs(limits.costs),
            ),
            policy=_said(self.policy, endpoint.policy),
            max_body=int(_said(self.max_body, endpoint.max_body)),
        )

    def _sized(self, limits: Limits) -> Limits:
        """The limits with the sizes of batches that the file says."""
        if self.sizes and limits.sizes:
            expected = f"expected none, for batches are filled up to sizes={list(limits.sizes)}"
            raise SettingError("sizes", f"{expected} of the module, got {written(self.sizes)}")
        sizes = tuple(self.sizes or limits.sizes)
        most = _said(self.max_batch_size, None if self.sizes else limits.max_batch_size)
        return replace(limits, max_batch_size=largest_batch(most, sizes), sizes=sizes)

    def _costs(self, costs: Costs | None) -> Costs | None:
        """How the costs of items add up."""
        if self.max_batch_cost is None:
            return costs
        if costs is None:
            expected = "expected none of an endpoint without cost=..., which says what items cost"
            raise SettingError("max_batch_cost", f"{expected}, got {self.max_batch_cost:g}")
        return replace(costs, max_batch_cost=self.max_batch_cost)


def _said(by_file: T | None, by_module: T) -> T:
    return by_module if by_file is None else by_file


class EndpointsFile(TomlFile):
    """Settings of endpoints that replace those of their module."""

    def applied(
        self, endpoints: Iterable[Endpoint | PipelineEndpoint]
    ) -> Sequence[Endpoint | PipelineEndpoint]:
        """Return the endpoints with the settings that the file has now.

        Raises:
            ConfigError: It can't be read, or something in it is not as it should be.
        """
        self.see()
        document = read_toml(self.path)
        tables = document.pop("endpoints", {})
        if document or not isinstance(tables, dict):
            msg = f'expected [endpoints."/path"] only, got {", ".join(document)}'
            raise ConfigError(f"{self.path}: {msg}")
        made = [self._made(endpoint, tables.pop(endpoint.path, {})) for endpoint in endpoints]
        if tables:
            raise ConfigError(f"{self.path}: there is no endpoint {', '.join(tables)}")
        return made

    def _made(
        self, endpoint: Endpoint | PipelineEndpoint, table: object
    ) -> Endpoint | PipelineEndpoint:
        where = f'{self.path}: endpoints."{endpoint.path}"'
        settings = read_table(where, table, EndpointSettings)
        if isinstance(endpoint, Endpoint):
            try:
                return settings.applied(endpoint)
            except SettingError as error:
                raise ConfigError(f"{where}.{error.key}: {error.fault}") from error
            except ValueError as error:
                raise ConfigError(f"{where}: {error}") from error
        if table:
            raise ConfigError(
                f"{where}: expected nothing of a pipeline, whose stages have the limits"
            )
        return endpoint
