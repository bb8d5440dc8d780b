"""A real Prometheus scrapes a real service, and is asked as operators ask it."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from yarl import URL

from adaptive_batching.marshal.service.service import Service
from tests.deployment.prometheus_process import Prometheus, prometheus
from tests.marshal.client import client_of

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

ELSEWHERE = {
    "Cost of a batch",
    "Members of failed batches",
    "Model servers behind a sidecar",
    "Padding",
}

pytestmark = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="prometheus is not installed"
)


async def reaches(asked: Prometheus, expression: str, value: float) -> None:
    """Wait until Prometheus has seen it."""
    while await asked.value(expression) != value:  # noqa: ASYNC110  another process's
        await asyncio.sleep(0.05)


async def test_what_it_reads_is_what_happened(tmp_path: Path, unused_tcp_port: int) -> None:
    """Forty answers in ten full batches; every panel's query and every rule is understood."""
    service = Service()

    @service.endpoint("/echo", max_batch_size=4, policy="window:1h", max_latency=60.0)
    async def echo(items: list[int]) -> list[int]:
        return items

    async with client_of(service, admin=("127.0.0.1", 0)) as client:
        target = URL(client.running.admin_url).authority
        rules = [EXAMPLES / "prometheus" / "alerts.yml"]
        async with prometheus(tmp_path, unused_tcp_port, target, rules) as asked:
            await reaches(asked, "adaptive_batching_build_info", 1)
            await asyncio.gather(*(client.post("/echo", number) for number in range(40)))
            await client.post("/nowhere", 1)
            await reaches(asked, 'adaptive_batching_requests_total{outcome="done"}', 40)
            await reaches(asked, 'adaptive_batching_http_responses_total{code="200"}', 40)
            await reaches(asked, 'adaptive_batching_http_responses_total{endpoint="other"}', 1)
            await reaches(asked, 'adaptive_batching_batches_total{reason="full"}', 10)
            await reaches(asked, "adaptive_batching_batch_size_sum", 40)
            await reaches(asked, 'adaptive_batching_batch_size_bucket{le="2"}', 0)
            await reaches(asked, "adaptive_batching_max_latency_seconds", 60)
            await reaches(asked, 'adaptive_batching_workers{state="alive"}', 1)
            await every_panel_is_understood(asked)
            evaluated = await asked.rules()
            assert {rule["health"] for rule in evaluated} <= {"ok", "unknown"}
            assert "firing" not in {rule["state"] for rule in evaluated}


async def every_panel_is_understood(asked: Prometheus) -> None:
    """And those about what happened here have something to show, once it was scraped twice."""
    panels = json.loads((EXAMPLES / "grafana" / "dashboard.json").read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "1m")
            query = query.replace("$job", ".*").replace("$endpoint", ".*")
            while not await asked.query(query) and panel["title"] not in ELSEWHERE:  # noqa: ASYNC110  it is asked over HTTP
                await asyncio.sleep(0.05)
