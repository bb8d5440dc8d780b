"""What a line says of how long batches take."""

from typing import Protocol


class Line(Protocol):
    """What is known of how long batches take, by their size and by what they cost."""

    @property
    def fixed(self) -> float:
        """Seconds that any batch takes."""

    @property
    def per_item(self) -> float:
        """Seconds that each item adds; where costs differ, one that costs as much as most."""

    @property
    def per_cost(self) -> float:
        """Seconds that each unit of a batch's cost adds, where items don't cost the same."""

    @property
    def per_size(self) -> float:
        """Seconds that each item adds whatever it costs."""

    @property
    def mean_cost(self) -> float:
        """What a batch costs for each of its items, on average of late."""

    @property
    def margin(self) -> float:
        """How much longer than predicted nine batches in ten stay below, relative."""
