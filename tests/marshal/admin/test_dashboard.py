"""The dashboard's page and stream: for operators only, and no burden for those who are served."""

import asyncio
import json
import re
import socket

import pytest
from yarl import URL

from tests.marshal import apps
from tests.marshal.admin.test_admin import LOOPBACK, ask
from tests.marshal.client import client_of, until

_STREAM = "/debug/live/stream"


@pytest.fixture
async def client():
    async with client_of(apps.service, admin=LOOPBACK) as client:
        yield client


async def viewer(client, **how):
    """A connection that asks for the stream; nothing of it is read yet."""
    url = URL(client.running.admin_url)
    how = how or {"host": url.host, "port": url.port, "limit": 2**20}
    reader, writer = await asyncio.open_connection(**how)
    writer.write(f"GET {_STREAM} HTTP/1.1\r\nHost: {url.authority}\r\n\r\n".encode())
    return reader, writer


async def event(reader):
    """Its name, and what it says."""
    await reader.readuntil(b"event: ")
    name = (await reader.readline()).decode().strip()
    data = await reader.readline()
    return name, json.loads(data.removeprefix(b"data: "))


async def files_of(client):
    """The page, and all that it names or that something named by it imports; by path."""
    found, wanted = {}, ["/"]
    while wanted:
        path = wanted.pop()
        found[path] = await ask(client, "GET", path)
        text = found[path].body.decode()
        named = re.findall(r'(?:src|href)="(dashboard/[^"]+)"', text)
        named += [
            f"dashboard/{name}"
            for name in re.findall(r'^import .* from "\./(.+?)"', text, re.MULTILINE)
        ]
        wanted += [f"/{name}" for name in named if f"/{name}" not in {*found, *wanted}]
    return found


async def test_the_page_is_small_and_has_all_that_it_needs(client):
    """Below 200 KiB with the first numbers, and nothing in it would need a weaker policy."""
    files = await files_of(client)
    assert {answer.status for answer in files.values()} == {200}
    kinds = {".js": "text/javascript", ".css": "text/css", "/": "text/html"}
    for path, answer in files.items():
        kind = next((kind for end, kind in kinds.items() if path.endswith(end)), "image/svg+xml")
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert len(files) > 10
    assert not re.search(r"https?:|<style|style=|\son\w+=|<script>", files["/"].body.decode())
    numbers = await ask(client, "GET", "/debug/live")
    assert sum(len(answer.body) for answer in [*files.values(), numbers]) < 200 * 1024


async def test_it_is_for_looking_at_and_not_for_pages_of_others(client):
    """Whoever gets a name to resolve to us, or asks from elsewhere, sees nothing."""
    for path in ("/", "/dashboard/main.js", "/debug/live", _STREAM):
        assert (await ask(client, "POST", path)).status == 405
        head = await ask(client, "HEAD", path)
        assert (head.status, head.body, head.headers["Cache-Control"]) == (200, b"", "no-store")
        for lie in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert (await ask(client, "GET", path, headers=lie)).status == 403
        if path != "/":
            assert (await client.get(path)).status == 404
    assert (await client.get("/")).body == (await client.get("/docs")).body  # of clients
    assert (await ask(client, "GET", "/dashboard/../apps.py")).status == 404


async def test_all_that_is_known_and_then_what_is_new(client):
    """The second message goes on from the first."""
    await client.post("/square", 3)
    reader, writer = await viewer(client)
    name, whole = await event(reader)
    assert (name, [each["name"] for each in whole["endpoints"]]) == ("whole", ["/square", "/slow"])
    await client.post("/square", 4)
    told, done = whole["endpoints"][0]["ran"], 0
    while done < 2:
        name, news = await event(reader)
        [square, _] = news["endpoints"]
        assert name == "news"
        assert news["now"] > whole["now"]
        told, done = told + square["ran"], square["requests"]["done"]
    assert [number for number, *_ in told] == [0, 1]
    writer.close()
    await until(lambda: not client.running.broadcast.viewers)


async def test_numbers_are_made_once_for_all_viewers(client):
    """They are told the same, byte for byte."""
    client.running.broadcast.stop()  # it looks by itself every second, with half of them there
    viewers = [await viewer(client) for _ in range(5)]
    await until(lambda: client.running.broadcast.viewers == 5)
    client.running.broadcast.look()
    told = []
    for reader, writer in viewers:
        await reader.readuntil(b"event: news\n")
        told.append(await reader.readline())
        writer.close()
    assert len(set(told)) == 1


async def test_who_does_not_read_is_hung_up_on(client):
    """Nothing piles up for him, and others are told as before."""
    idle = socket.socket()
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    url = URL(client.running.admin_url)
    idle.connect((url.host, url.port))
    idle.setblocking(False)  # noqa: FBT003
    _, writer = await viewer(client, limit=1, sock=idle)
    await until(lambda: client.running.broadcast.viewers == 1)
    while client.running.broadcast.viewers:
        for _ in range(100):
            client.running.broadcast.look()
        await asyncio.sleep(0)
    writer.close()
    reader, writer = await viewer(client)
    assert (await event(reader))[0] == "whole"
    writer.close()


async def test_there_is_room_for_so_many_viewers(client):
    """One more is told to come later, and may when somebody has left."""
    viewers = [await viewer(client) for _ in range(64)]
    await until(lambda: client.running.broadcast.viewers == 64)
    assert (await ask(client, "GET", _STREAM)).status == 503
    viewers.pop()[1].close()
    await until(lambda: client.running.broadcast.viewers == 63)
    reader, writer = await viewer(client)
    assert (await event(reader))[0] == "whole"
    for _, each in [*viewers, (reader, writer)]:
        each.close()


async def test_viewers_do_not_hold_up_the_end():
    """Their streams end properly and at once."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        reader, writer = await viewer(client)
        await event(reader)
        await client.running.stop(3600)
        assert (await reader.read()).endswith(b"0\r\n\r\n")
        writer.close()


async def test_before_a_model_server_as_well(model, before):
    """Its routes are endpoints."""
    client = await before()
    await client.predict(1)
    client.running.broadcast.look()
    whole = (await ask(client, "GET", "/debug/live")).json
    assert [(each["name"], each["requests"]["done"]) for each in whole["endpoints"]] == [
        ("models", 1)
    ]
