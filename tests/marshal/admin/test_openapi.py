"""What a service says of itself: to programs, to people, and that it does what it says."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adaptive_batching.marshal.service.runner import Running
from adaptive_batching.marshal.service.service import Service
from tests.marshal.admin import documented
from tests.marshal.client import client_of
from tests.marshal.service import typed
from tests.plots.chromium import CHROMIUM, browser

ROOT = Path(__file__).parents[3]
SCHEMATHESIS = shutil.which("schemathesis", path=str(Path(sys.executable).parent))


async def test_schemathesis_finds_nothing(tmp_path):
    """Whatever it makes of the document has an answer that the document knows, and none is 5xx."""
    async with client_of(documented.service) as client:
        command = ("run", f"{client.running.url}/openapi.json", "--seed", "1", "--no-color")
        phases = ("--phases", "examples,coverage,fuzzing", "--max-examples", "10")
        hooks = {
            "SCHEMATHESIS_HOOKS": "tests.marshal.admin.schemathesis_hooks",
            "PYTHONPATH": str(ROOT),
        }
        process = await asyncio.create_subprocess_exec(
            str(SCHEMATHESIS),
            *command,
            *phases,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,  # where it keeps notes of its runs
            env={**os.environ, **hooks},
        )
        said, _ = await process.communicate()
        answered = {
            status for lane in client.running.endpoints.values() for status in lane.responses
        }
    report = said.decode()
    assert process.returncode == 0, report
    assert "No issues found" in report
    assert {200, 400, 405, 415, 422} <= answered
    assert not [status for status in answered if status >= 500]


async def test_a_service_that_does_not_describe_itself():
    """Not to clients; where it is and whether it is ready, they see."""
    service = Service(documented=False)

    @service.endpoint("/echo")
    async def echo(items):
        return items

    async with client_of(service) as client:
        statuses = [
            (await client.get(path)).status for path in ("/docs", "/openapi.json", "/readyz")
        ]
        assert statuses == [404, 404, 200]
        assert (await client.post("/echo", 1)).json == 1


async def test_the_document():
    """Types, examples, codecs and every code in the table of errors."""
    async with client_of(documented.service) as client:
        document = (await client.get("/openapi.json")).json
    assert document["info"]["title"] == "documented"
    posted = {path: each["post"] for path, each in document["paths"].items() if "post" in each}
    assert list(posted) == [endpoint.path for endpoint in documented.service]
    images = posted["/images"]
    assert images["summary"] == "Whether images are bright."
    assert images["description"].startswith("The mean of the pixels decides")
    content = images["requestBody"]["content"]
    assert list(content) == ["application/json", "application/msgpack"]
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/Image"}
    example = {"pixels": [0.5, 1.0], "name": "sun", "kind": "photo"}
    assert content["application/json"]["examples"]["example-1"]["value"] == example
    assert {"Image", "Label", "Movie", "Point", "Person"} <= set(document["components"]["schemas"])
    assert set(document["paths"]) - set(posted) == {
        "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs",
    }  # fmt: skip
    assert posted["/upper"]["requestBody"]["content"]["text/plain; charset=utf-8"]
    assert "422" not in posted["/echo"]["responses"]
    told = {
        (status, code)
        for status, response in document["components"]["responses"].items()
        for code in response["content"]["application/json"]["schema"]["properties"]["error"]["enum"]
    }
    table = (ROOT / "docs" / "reference" / "errors.md").read_text()
    rows = re.findall(r"^\| ([0-9, ]+) \| (`.*?) \|", table, re.MULTILINE)
    assert rows
    listed = {
        (code, frozenset(map(str.strip, statuses.split(","))))
        for statuses, codes in rows
        for code in re.findall(r"`(\w+)`", codes)
    }
    for code, statuses in listed - {("not_found", frozenset({"404", "405"}))}:
        assert any((status, code) in told for status in statuses), (code, statuses)


async def test_without_metrics_where_operators_have_a_port():
    """Only what is there is described."""
    async with client_of(typed.service, admin=("127.0.0.1", 0)) as client:
        document = (await client.get("/openapi.json")).json
    assert "/metrics" not in document["paths"]
    assert "/healthz" in document["paths"]


def test_two_types_of_one_name():
    """A document could only have one of them: that is told before anything is served."""
    service = Service()
    other = msgspec.defstruct("Person", [("name", str)])
    service.endpoint("/a", item=documented.Person, result=Any)(sorted)
    service.endpoint("/b", item=other, result=Any)(sorted)
    with pytest.raises(TypeError, match="names of their own, got two called Person"):
        Running(service.description)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
async def test_the_page_in_a_browser(tmp_path):
    """It asks for nothing elsewhere, complains of nothing, fits a phone, and sends an item."""
    async with client_of(documented.service) as client, browser(tmp_path / "profile") as tab:
        page = f"{client.running.url}/docs"
        for width in (360, 1000):
            await tab.open(page, width=width)
            assert await tab.value("document.documentElement.scrollWidth") <= width
            heads = json.loads(
                await tab.value(
                    "JSON.stringify([...document.querySelectorAll('h2')].map(h => h.textContent))"
                )
            )
            assert heads[:2] == ["POST /images", "POST /movies"]
            assert heads[-2:] == ["Types", "The service itself"]
        assert await tab.value("getComputedStyle(document.body).maxWidth") != "none"
        command = await tab.value("document.querySelector('form + pre').textContent")
        assert client.running.url in command
        await tab.value("document.querySelector('form button').click(), 1")
        await tab.becomes("document.querySelector('output').textContent.includes('sun')")
        said = await tab.value("document.querySelector('output').textContent")
        assert said == '200\n{"bright":true,"name":"sun"}'
        await tab.value("document.querySelectorAll('form button').forEach(each => each.click()), 1")
        outputs = "JSON.stringify([...document.querySelectorAll('output')].map(o => o.textContent))"
        await tab.becomes(f"!{outputs}.includes('…')")
        said = json.loads(await tab.value(outputs))
        assert [each.partition("\n")[0] for each in said] == ["200"] * len(said)
        asked = {each["request"]["url"] for each in tab.named("Network.requestWillBeSent")}
        assert {url.removeprefix(client.running.url) for url in asked} >= {"/images", "/docs"}
        assert {url for url in asked if not url.startswith(client.running.url)} <= {"data:,"}
        assert tab.named("Log.entryAdded", "Runtime.exceptionThrown") == []


async def test_the_page_shows_text_as_text(tmp_path):
    """What a handler's author wrote is no part of the page's markup."""
    service = Service("<script>alert(1)</script>")

    @service.endpoint("/a", examples=["</textarea><b>"])
    async def handler(items: list[str]) -> list[str]:
        """<img src=x>"""
        return items

    async with client_of(service) as client:
        answer = await client.get("/docs")
    page = answer.body.decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "</textarea><b>" not in page
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
