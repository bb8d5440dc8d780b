"""What workers are to hold, and in words what they missed."""

from dataclasses import dataclass
from math import ceil, floor

from adaptive_batching.simulation.study.report import Row


@dataclass(frozen=True, slots=True)
class Target:
    """What has to hold.

    Attributes:
        goodput: Share of all requests to be answered by their deadlines.
        max_latency: Seconds within which 99 of 100 answers come; infinite if that is all the same.
        throughput: Answers a second; None if that is all the same, as it is where the arrivals are
            given.
    """

    goodput: float
    max_latency: float
    throughput: float | None = None

    def holds(self, row: Row) -> bool:
        """Whether a simulation came to it."""
        return not self.missed(row)

    def missed(self, row: Row) -> list[str]:
        """What a simulation did not come to, in words; rounded so that it never looks enough."""
        if row.goodput is None or row.p99_latency is None:
            return ["no request was answered"]
        missed = []
        if row.goodput < self.goodput:
            missed.append(f"goodput {floor(row.goodput * 1e4) / 1e2:.2f}%, not {self.goodput:.2%}")
        if row.p99_latency > self.max_latency:
            p99 = ceil(row.p99_latency * 1e5) / 1e2
            missed.append(f"p99 {p99:,.2f} ms, not {self.max_latency * 1e3:,.2f} ms")
        if self.throughput is not None and (row.throughput or 0.0) < self.throughput:
            answers = floor(row.throughput or 0.0)
            missed.append(f"{answers:,} answers/s, not {self.throughput:,.0f}")
        return missed
