"""How tenants that share the workers are told apart, and what each may have of them."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import inf
from sys import float_info

from adaptive_batching.core.policy import Limits
from adaptive_batching.units import is_number, plain_number

_PART_OF_PATIENCE = 4  # ageing by default: a quarter of max_latency
_WITHOUT_PATIENCE = 1.0  # seconds, where there is no max_latency


@dataclass(frozen=True, slots=True)
class Fairness:
    """Tenants share the workers by weight; of each one's jobs, those of high priority go first.

    Attributes:
        weights: Parts of the workers that a tenant may claim while others want them as well; 1 for
            each that is not named. What one does not use the others have.
        ageing: Seconds after which no job of high priority goes before a normal one of its tenant
            any more; None for a quarter of max_latency, or a second where there is none.

    Raises:
        ValueError: A weight is not positive, or the ageing negative, or one of them no number.
        TypeError: The weights are no mapping.
    """

    weights: Mapping[Hashable, float] = field(default_factory=dict)
    ageing: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise TypeError(f"weights: expected a weight for each tenant, got {self.weights!r}")
        weights = {tenant: plain_number(weight) for tenant, weight in self.weights.items()}
        for tenant, weight in weights.items():
            if not (is_number(weight) and 0 < weight <= float_info.max):
                raise ValueError(
                    f"weights: expected a positive number for {tenant!r}, got {weight!r}"
                )
        object.__setattr__(self, "weights", weights)  # NumPy's numbers would be reckoned with
        if not (self.ageing is None or (is_number(self.ageing) and self.ageing >= 0)):
            raise ValueError(
                f"ageing: expected 0 seconds or more, as a number, got {self.ageing!r}"
            )

    def head_start(self, limits: Limits) -> float:
        """The ageing (seconds), given or by default."""
        if self.ageing is not None:
            return self.ageing
        patience = limits.max_latency
        return _WITHOUT_PATIENCE if patience == inf else patience / _PART_OF_PATIENCE
