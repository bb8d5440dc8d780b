"""What is counted of batches and requests, and in which formats it is told."""

import asyncio
from math import inf

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adaptive_batching.core import Costs, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.instrumentation.histograms import BatchHistograms, Histogram
from adaptive_batching.instrumentation.prometheus import Metrics
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.placement import Tasks


async def without_sevens(items):
    if 7 in items:
        raise ValueError
    return items


async def same(items):
    return items


@pytest.fixture
def metrics():
    """The metrics of one endpoint that has not run yet."""
    metrics = Metrics()
    histograms = BatchHistograms(1)
    workers = make_workers(same, Tasks(2))
    metrics.watch("/same", Dispatcher(workers, Limits(), observers=[histograms]), histograms)
    metrics.responses["/same"] = {200: 1}
    return metrics


def families(metrics, accept):
    body, content_type = metrics.exposition(accept)
    assert content_type.startswith(accept)
    return list(text_string_to_metric_families(body.decode()))


async def padded(items):
    return items


async def shown_of_costs(costs, each=(1, 1, 4)):
    """What Prometheus is told of the costs of an endpoint after a batch of 1, 1 and 4."""
    metrics, histograms = Metrics(), BatchHistograms(8)
    workers, limits = make_workers(padded, Tasks(1)), Limits(3, costs=costs)
    dispatcher = Dispatcher(workers, limits, policy="window:1h", observers=[histograms])
    metrics.watch("/texts", dispatcher, histograms)
    async with dispatcher:
        await asyncio.gather(*(dispatcher.submit(cost, cost=cost) for cost in each))
    return {
        (sample.name.removeprefix("adaptive_batching_"), sample.labels.get("le")): sample.value
        for family in families(metrics, "text/plain")
        for sample in family.samples
        if "cost" in sample.name
    }


async def test_the_cost_of_batches_is_told_with_and_without_padding():
    """Three items padded to 4 cost 12, half of which is padding."""
    shown = await shown_of_costs(Costs(padded=True, max_batch_cost=64))
    assert shown["batch_cost_sum", None] == 12
    assert (shown["batch_cost_bucket", "4"], shown["batch_cost_bucket", "16"]) == (0, 1)
    assert shown["batch_own_cost_total", None] == 6
    assert shown["max_batch_cost", None] == 64
    assert shown["model_per_cost_seconds", None] >= 0


async def test_the_cost_of_a_batch_that_is_not_padded_is_its_items_own():
    shown = await shown_of_costs(Costs())
    assert shown["batch_cost_sum", None] == shown["batch_own_cost_total", None] == 6
    assert shown["max_batch_cost", None] == inf


async def test_a_batch_that_costs_nothing_counts_as_one():
    """Items of cost 0 among others are no reason to leave their batch out of the mean."""
    shown = await shown_of_costs(Costs(), each=(0, 0, 0))
    assert (shown["batch_cost_count", None], shown["batch_cost_sum", None]) == (1, 0)


async def test_endpoints_without_costs_have_no_series_about_them():
    assert await shown_of_costs(None) == {}


@pytest.mark.parametrize(("sizes", "padded_items"), [((1, 4), 4), ((), None)])
async def test_items_that_were_run_are_told_where_there_are_sizes(sizes, padded_items):
    """A batch of three that runs as four has three items; without sizes there is no such series."""
    metrics, histograms = Metrics(), BatchHistograms(4)
    workers, limits = make_workers(same, Tasks(1)), Limits(4, sizes=sizes)
    dispatcher = Dispatcher(workers, limits, policy="window:1ms", observers=[histograms])
    metrics.watch("/same", dispatcher, histograms)
    async with dispatcher:
        await asyncio.gather(*map(dispatcher.submit, range(3)))
    told = {
        sample.name: sample.value
        for each in families(metrics, "text/plain")
        for sample in each.samples
    }
    assert told["adaptive_batching_batch_size_sum"] == 3
    assert told.get("adaptive_batching_batch_padded_items_total") == padded_items


def test_open_metrics_on_demand(metrics):
    """Prometheus asks for it."""
    body, content_type = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_a_histogram_counts_up_to_and_including_its_bounds():
    """And everything under the last."""
    histogram = Histogram([1, 2, 4])
    for value in (1, 2, 2, 3, 100):
        histogram.observe(value)
    assert histogram.cumulative() == [("1", 1), ("2", 3), ("4", 4), ("+Inf", 5)]
    assert histogram.total == 108


@pytest.mark.parametrize(
    ("largest", "bounds"), [(1, (1,)), (2, (1, 2)), (48, (1, 2, 4, 8, 16, 32, 48))]
)
def test_sizes_are_counted_by_powers_of_two(largest, bounds):
    """The limit is always a bound, also where it is the only one."""
    assert BatchHistograms(largest).size.bounds == bounds


async def test_members_of_failed_batches_are_counted_once_in_histograms():
    """Who runs again is counted with the batch that he ends in, and by what became of him."""
    metrics, histograms = Metrics(), BatchHistograms(8)
    workers = make_workers(without_sevens, Tasks(1))
    dispatcher = Dispatcher(workers, Limits(8), idempotent=True, observers=[histograms])
    metrics.watch("/", dispatcher, histograms)
    async with dispatcher:
        calls = (dispatcher.submit(item) for item in range(8))
        await asyncio.gather(*calls, return_exceptions=True)
    samples = {
        (sample.name.removeprefix("adaptive_batching_"), sample.labels.get("result")): sample.value
        for family in families(metrics, "text/plain")
        for sample in family.samples
    }
    assert samples["request_duration_seconds_count", None] == 8
    assert samples["batch_size_count", None] == 7
    assert samples["bisect_total", "again"] == 8 + 4 + 2
    assert samples["bisect_total", "innocent"] == 7
    assert samples["bisect_total", "guilty"] == 1
    assert samples["bisect_total", "quarantined"] == 0
