"""The names of metrics are an interface: alerts, dashboards and autoscalers are built on them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from yarl import URL

from adaptive_batching.instrumentation.prometheus.metrics import DEFINITIONS, Metrics
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.marshal.sidecar.route import Route, Terms
from adaptive_batching.marshal.sidecar.runner import SidecarRunning
from adaptive_batching.marshal.sidecar.upstream.addresses import Location
from adaptive_batching.wire.tensorflow import TensorFlowServing
from tests.instrumentation.exposed import GOLDEN, golden, ours, series, shown
from tests.marshal.client import client_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
HOSTILE = ["/é", "/%2e%2e", "/a" * 2000, '/"}', "/\\n", "/echo/", "/ECHO", "//echo", "/echo%20"]


async def exposed_by_a_service() -> str:
    """What a service says that has answered, refused and not found."""
    service = Service()

    @service.endpoint("/echo")
    async def echo(items: list[int]) -> list[int]:
        return items

    async with client_of(service) as client:
        for path in ("/echo", "/nowhere"):
            await client.post(path, 1)
        return (await client.get("/metrics")).body.decode()


async def exposed_by_a_sidecar(server: URL) -> str:
    """What a sidecar says whose server was never asked."""
    route = Route("models", [Location.parse(str(server))], TensorFlowServing(), Terms())
    running = SidecarRunning([route])
    await running.start("127.0.0.1", 0)
    await running.stop(1.0)
    return running.metrics.exposition("")[0].decode()


def complaints(text: str) -> str:
    """What promtool has to say."""
    check = ["promtool", "check", "metrics"]
    done = subprocess.run(check, input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_definitions_are_as_others_know_them() -> None:
    """A name, a type or a label that changes breaks somebody's alert."""
    defined = {(each.name, each.family().type, each.labels) for each in DEFINITIONS}
    assert defined == set(golden())
    assert len(DEFINITIONS) == len(golden())


async def test_service_and_sidecar_show_all_of_them(unused_tcp_port: int) -> None:
    """Together, and nothing else but what is known of the process."""
    service = list(shown(await exposed_by_a_service()))
    sidecar = list(shown(await exposed_by_a_sidecar(URL(f"http://127.0.0.1:{unused_tcp_port}"))))
    names = {each.name for each in ours([*service, *sidecar])}
    assert names == {each.name for each in golden()}
    known = {each.name: (each.kind, tuple(sorted(each.labels))) for each in golden()}
    for each in ours([*service, *sidecar]):
        kind, labels = known[each.name]
        assert (each.kind, each.labels or labels) == (kind, labels)
    of_process = {each.name for each in [*service, *sidecar]} - names
    assert "process_cpu_seconds_total" in of_process
    assert all(name.startswith("process_") for name in of_process)


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
async def test_promtool_finds_nothing_to_complain_about(unused_tcp_port: int) -> None:
    """Names, units, help texts and types are as Prometheus' own rules want them."""
    for text in (
        await exposed_by_a_service(),
        await exposed_by_a_sidecar(URL(f"http://127.0.0.1:{unused_tcp_port}")),
    ):
        assert complaints(text) == ""


async def test_no_client_of_a_service_makes_up_a_label() -> None:
    """Paths, methods, headers and bodies may be anything: there are as many series as before."""
    service = Service()

    @service.endpoint("/echo")
    async def echo(items: list[int]) -> list[int]:
        return items

    async with client_of(service) as client:
        for path, method in (("/echo", "POST"), ("/echo", "GET"), ("/none", "GET"), ("/", "GET")):
            await client.send(method, path, data="1")
        await client.post("/echo", b"?")
        await client.post("/", b"?")
        await client.get("/metrics")  # an answer like others
        before = series((await client.get("/metrics")).body.decode())
        for number, path in enumerate([*HOSTILE, *(f"/{number}" for number in range(100))]):
            headers = {"X-Request-Id": f"{number}", "X-Tenant": f"{number}", "Host": f"h{number}"}
            for method in ("GET", "POST", f"M{number}"):
                await client.send(method, path, data=f"{number}", headers=headers)
        after = series((await client.get("/metrics")).body.decode())
    assert before.keys() == after.keys()
    assert after["http_responses_total", "404", "other"] > 200


def test_made_up_statuses_are_counted_together() -> None:
    """A model server may answer with any three digits; there are no more series for it."""
    metrics = Metrics()
    metrics.responses["models"] = dict.fromkeys(range(100, 1000), 1)
    counted = {
        code: value
        for (name, *labels), value in series(metrics.exposition("")[0].decode()).items()
        if name == "http_responses_total"
        for code in labels[:1]
    }
    assert sum(counted.values()) == 900
    assert counted["200"] == 1
    assert counted["9xx"] == 100
    assert len(counted) < 80


def test_the_reference_lists_them_all() -> None:
    """Names, types, labels and meanings of the documentation are those of the program."""
    rows = re.findall(
        r"^\| `(adaptive_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", REFERENCE.read_text(), re.MULTILINE
    )
    told = {
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in rows
    }
    assert told == {
        (each.name, each.family().type, each.labels, each.meaning) for each in DEFINITIONS
    }
    assert GOLDEN.read_text() == "".join(sorted(GOLDEN.read_text().splitlines(keepends=True)))
