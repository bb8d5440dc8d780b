"""Other proxies and we agree on how many requests a stream of bytes holds.

Where two that stand behind each other disagree, a request can be smuggled past the first one.
"""

import asyncio
import shutil
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp import web

from tests.marshal.sidecar.peers.raw import connect
from tests.marshal.sidecar.peers.streams import MALFORMED, WELL_FORMED, requests_of

NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://{upstream}; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""
HAPROXY = """
defaults
  mode http
  timeout connect 2s
  timeout client 2s
  timeout server 2s
listen all
  bind 127.0.0.1:{port}
  server one {upstream}
"""
_SILENCE = 0.5  # seconds after which nothing more is answered, where that is not the end
_PATIENCE = 600.0  # seconds for a stream whose last request asks for the end
PROXIES = {
    "nginx": (NGINX, ["-p", "{folder}", "-c", "{file}"]),
    "haproxy": (HAPROXY, ["-db", "-f", "{file}"]),
}


@pytest.fixture(params=PROXIES)
async def another(request, tmp_path, unused_tcp_port_factory):
    """Put another proxy before a server; returns where it is."""
    name = request.param
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    text, arguments = PROXIES[name]
    async with AsyncExitStack() as stack:

        async def start(upstream):
            port = unused_tcp_port_factory()
            folder = tmp_path / str(port)
            folder.mkdir()
            file = folder / f"{name}.conf"
            words = {"folder": folder, "file": file, "port": port}
            file.write_text(text.format(upstream=upstream.removeprefix("http://"), **words))
            process = await asyncio.create_subprocess_exec(
                program, *(each.format(**words) for each in arguments)
            )
            stack.push_async_callback(process.wait)
            stack.callback(process.kill)
            url = f"http://127.0.0.1:{port}"
            await listening(url, process)
            return url

        yield start


async def listening(url, process):
    """Wait until a program takes connections there; one that ends never will."""
    while process.returncode is None:
        try:
            _, writer = await connect(url)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            return writer.close()
    pytest.fail(f"the program has ended with status {process.returncode}")


@asynccontextmanager
async def recording():
    """A server that remembers which requests it found."""
    found = []

    async def answer(request):
        found.append((request.method, request.raw_path, await request.read()))
        return web.Response(body=b"ok")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}", found
    finally:
        await runner.cleanup()


async def requests_in(stream, url, found, silence):
    """Which requests of a stream reach the server, until nothing was answered for so long."""
    found.clear()
    reader, writer = await connect(url)
    writer.write(stream)
    with suppress(ConnectionError, TimeoutError):  # who keeps it open waits for more
        while True:
            async with asyncio.timeout(silence):
                if not await reader.read(2**16):
                    break
    writer.close()
    return [*found]


async def test_t1_well_formed_streams_hold_the_same_requests_for_all(before, another):
    """Behind another proxy, before it, and without one."""
    async with recording() as (server, found):
        alone = (await before(server=server)).url
        theirs = await another(server)
        chains = [theirs, alone, (await before(server=theirs)).url]
        for name, stream in WELL_FORMED.items():
            first, *others = [await requests_in(stream, url, found, _PATIENCE) for url in chains]
            assert others == [first] * 2, name
            assert len(first) == requests_of(stream), name


async def test_t1_behind_another_proxy_nobody_finds_more_than_it_passed_on(before, another):
    """Of a stream that can be read in two ways we find the requests that it found, or refuse."""
    async with recording() as (server, found):
        sidecar = (await before(server=server)).url
        seen = await another(server)
        both = await another(sidecar)
        for name, stream in MALFORMED.items():
            expected = await requests_in(stream, seen, found, _SILENCE)
            ours = await requests_in(stream, both, found, _SILENCE)
            assert ours == expected[: len(ours)], name
