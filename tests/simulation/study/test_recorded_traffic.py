"""Costs and allowed sizes on recorded traffic, made denser by dividing its times."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adaptive_batching.core import Costs, Limits
from adaptive_batching.simulation import CostSeconds, Experiment, Padded, Server, read_trace

RECORDED = Path(__file__).parents[3] / "../shared/traces"
SIZES = (8, 16, 32, 64)

pytestmark = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the recorded traces are not beside the project"
)


def by_cost(name: str, load: float) -> Experiment:
    """Prompts that cost their tokens; full batches in the order of arrival are a load of 1."""
    trace = read_trace(RECORDED / f"{name}.csv.gz", cost="tokens")
    costs = trace.costs
    per_cost = 54e-6 / float(np.median(costs))  # seconds: 64 usual prompts take 4 ms + 3.5 ms
    full = costs[: len(costs) // 64 * 64].reshape(-1, 64).max(axis=1)
    capacity = 64 / (4e-3 + per_cost * 64 * float(full.mean()))
    times = trace.times * (len(costs) / trace.times[-1] / (load * capacity))
    server = Server(4e-3, 0.0, jitter=0.02, costs=CostSeconds(per_cost, padded=True))
    warmup = float(times[len(times) // 10])
    return Experiment(times, server, Limits(64, 0.2), costs=costs.tolist(), warmup=warmup)


def figures(experiment: Experiment, policy: str) -> tuple[float, float]:
    """Goodput, and mean latency (seconds)."""
    row = experiment.run(policy)
    return row.goodput or 0.0, row.mean_latency or 0.0


@pytest.mark.parametrize("name", ["azure_llm_2023_conv", "mooncake_conv_tick3s"])
@pytest.mark.parametrize("load", [0.3, 0.9, 1.1, 2.0])
def test_costs_are_never_worse_than_the_order_of_arrival(name: str, load: float) -> None:
    """By no more than half a point, or 2 % of the mean where nearly all are in time."""
    alike = by_cost(name, load)
    known = replace(alike, limits=Limits(64, 0.2, costs=Costs(padded=True)))
    (before, mean), (after, mean_after) = figures(alike, "cork"), figures(known, "cork")
    assert after >= before - 0.005
    if min(before, after) >= 0.99:
        assert mean_after <= 1.02 * mean


@pytest.mark.parametrize(
    ("name", "speedup"),
    [("disb_real_5models", 20), ("azure_llm_2023_conv", 300), ("azure_llm_2023_conv", 450)],
)
def test_declared_sizes_are_never_worse_than_triton(name: str, speedup: float) -> None:
    """Nor than a line over all sizes: 2 % of the mean, or half a point."""
    times = read_trace(RECORDED / f"{name}.csv.gz").times / speedup
    server = Server(5e-3, 0.3e-3, jitter=0.05)
    padded = replace(server, curve=Padded(server.mean, SIZES))
    line = Experiment(times, padded, Limits(64, 50e-3))
    declared = replace(line, limits=Limits(64, 50e-3, sizes=SIZES))
    triton, triton_mean = figures(line, "triton:8,16,32,64")
    goodput, mean = figures(declared, "cork")
    assert goodput >= max(figures(line, "cork")[0], triton) - 0.005
    assert mean <= 1.02 * triton_mean
