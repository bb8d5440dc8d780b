"""Behind the proxies of the how-to, configured as it says, requests still share batches."""

import asyncio
import re
import shutil
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from adaptive_batching.marshal.sidecar.batch_key import HeaderRules
from tests.marshal.sidecar.test_differential import listening
from tests.workers.conditions import until

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "sidecar" / "proxies.md"
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  {block}
}}
"""
CLIENTS = 40


@pytest.fixture(params=["nginx", "envoy"])
def proxy(request, tmp_path, unused_tcp_port):
    """Put a proxy of the how-to before a sidecar."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    kind, listens, listens_here = {
        "nginx": ("nginx", "listen 80", "listen 127.0.0.1:{}"),
        "envoy": ("yaml", "port_value: 8080", "port_value: {}"),
    }[request.param]
    [block] = re.findall(rf"^```{kind}\n(.*?)^```$", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)

    @asynccontextmanager
    async def before(url):
        port = url.rpartition(":")[2]
        # Not on all addresses: one of our clients' may have had that port a moment ago.
        text = block.replace(listens, listens_here.format(unused_tcp_port))
        text = text.replace("address: 0.0.0.0", "address: 127.0.0.1")
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        text = text.replace("port_value: 8000", f"port_value: {port}")
        file = tmp_path / f"proxy.{kind}"
        arguments = ["-c", str(file)]
        if kind == "nginx":
            text = NGINX.format(folder=tmp_path, block=text)
            arguments += ["-p", str(tmp_path)]
        else:
            arguments += ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
        file.write_text(text)
        process = await asyncio.create_subprocess_exec(program, *arguments)
        try:
            await listening(f"http://127.0.0.1:{unused_tcp_port}", process)
            yield f"http://127.0.0.1:{unused_tcp_port}/v1/models/m:predict"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    return before


async def asked(stack, url, number):
    """What a client with an address and a name of its own is answered."""
    connector = aiohttp.TCPConnector(local_addr=(f"127.0.1.{number + 1}", 0))
    headers = {"User-Agent": f"client {number}"}
    session = aiohttp.ClientSession(connector=connector, headers=headers)
    await stack.enter_async_context(session)
    async with session.post(url, json={"instances": [number]}) as response:
        return response.status, await response.json()


async def all_asked(model, client, url):
    """Have all clients wait behind the first, which the server holds; returns what they got."""
    model.gate.clear()
    dispatcher = client.running.dispatchers["models"]
    async with AsyncExitStack() as stack:
        tasks = [asyncio.ensure_future(asked(stack, url, 0))]
        await until(lambda: model.batches)
        tasks += [asyncio.ensure_future(asked(stack, url, each)) for each in range(1, CLIENTS)]
        await until(lambda: dispatcher.stats().queued == CLIENTS - 1)
        model.gate.set()
        return await asyncio.gather(*tasks)


async def test_clients_with_addresses_of_their_own_share_batches(model, before, proxy):
    """At least nine in ten; the server is told no address, and that of who is alone."""
    client = await before()
    async with proxy(client.url) as url:
        answers = await all_asked(model, client, url)
    assert answers == [(200, {"predictions": [2 * each]}) for each in range(CLIENTS)]
    shared = sum(len(batch) for batch in model.batches if len(batch) > 1)
    assert shared >= 0.9 * CLIENTS
    told = {len(batch): seen for batch, seen in zip(model.batches, model.seen, strict=True)}
    assert told[1]["X-Forwarded-For"] == "127.0.1.1"
    assert told[1]["User-Agent"] == "client 0"
    assert told[CLIENTS - 1]["X-Forwarded-For"] == "unknown"
    assert "User-Agent" not in told[CLIENTS - 1]


async def test_addresses_that_are_named_keep_clients_apart(model, before, proxy):
    """And the metric says so."""
    client = await before(headers=HeaderRules(["X-Forwarded-For"]))
    async with proxy(client.url) as url:
        await all_asked(model, client, url)
    told = sorted(headers["X-Forwarded-For"] for headers in model.seen)
    assert told == sorted(f"127.0.1.{number + 1}" for number in range(CLIENTS))
    page = client.running.metrics.exposition("text/plain")[0].decode()
    series = 'endpoint="models",header="x-forwarded-for",reason="header"'
    assert f"adaptive_batching_upstream_alone_total{{{series}}} {CLIENTS - 1:.1f}" in page
