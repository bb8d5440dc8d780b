"""Ten thousand bodies that nobody should send, among those that everybody does."""

import asyncio
import io
import json
import pickle
from collections import Counter
from random import Random

import msgspec
import numpy as np
from yarl import URL

from tests.marshal.admin import documented
from tests.marshal.client import client_of

CONNECTIONS = 25
EACH = 400  # requests on a connection

JSON, MSGPACK, NPY = "application/json", "application/msgpack", "application/x-npy"


def _npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


GOOD = {
    ("/images", JSON): b'{"pixels":[0.5,1,1],"name":"a","kind":"drawing"}',
    ("/images", MSGPACK): msgspec.msgpack.encode({"pixels": [0.5, 1], "name": "b"}),
    ("/movies", JSON): b'{"title":"M","year":1931}',
    ("/distances", JSON): b'{"x":3,"y":-4.5e0}',
    ("/people", JSON): b'{"name":"c","age":36}',
    ("/pairs", JSON): b"[[1,2],[3,255]]",
    ("/pairs", NPY): _npy(np.ones((3, 2), "uint8")),
    ("/sizes", "image/png"): b"\x89PNG\r\n",
    ("/upper", "text/plain"): "äö".encode(),
    ("/echo", JSON): b'[1,{"a":null}]',
    ("/count", JSON): b'"a b c"',
}
TARGETS = sorted(GOOD)

HOSTILE = [
    b"", b" ", b"{", b"]", b"null", b"NaN", b"-Infinity", b"1e999", b"-", b"1.", b"tru", b'"',
    b'"\\u"', b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b"-" + b"9" * 400, b"0" * 100,
    b"\xef\xbb\xbf1", b"\xff\xfe1\0", b'"\\ud800"', b'"\xed\xa0\x80"', b'"\\u0000"', b"{}" * 999,
    b'{"pixels":[NaN]}', b'{"pixels":[1e309]}', b'{"pixels":' + b"[" * 900 + b"}",
    b'{"pixels":[],"pixels":5}', b'{"x":1e-400,"y":5}', b'{"name":"a","age":1e2}',
    b'{"title":"M","year":99999999999999999999999999}', b"[" + b"0," * 9999 + b"0]",
    b"[[1,2],[3]]", b"[[256,-1]]", b"[[true,1]]", b"[[1.5,1]]",
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 5000,
    b"\x81\x80\x01", b"\x81\xa6pixels\xdc\xff\xff", b"\xd8\xff" + b"a" * 16, b"\xd4\x05a", b"\xc1",
    b"\xcb\x7f\xf8\0\0\0\0\0\0", b"\xc7\x0c\xff" + b"\xff" * 12,
    b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 9999,
    b"\x93NUMPY\x01\x00\x45\x00{'descr': '|u1', 'fortran_order': False, 'shape': (999999999, 2)}\n",
    _npy(np.array([{}], dtype=object)), _npy(np.zeros((2, 2))), _npy(np.zeros(0, "uint8")),
    pickle.dumps(Exception), b"\x1f\x8b" + b"\0" * 50,
    b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>&b;",
]  # fmt: skip

CONTENT_TYPES = [
    JSON, MSGPACK, NPY, "", "text/plain", "application/xml", "application/json; charset=utf-16",
    "multipart/form-data", "application/x-pickle", "json", "*/*", "é" * 9,
]  # fmt: skip
ACCEPTED = [
    None,
    "*/*",
    JSON,
    MSGPACK,
    NPY,
    "text/html",
    "a;q=b,,;",
    "application/*;q=0.5, */*;q=0",
]


def _hostile(random: Random) -> tuple[str, str, bytes]:
    """Where it goes, what it is called, and what it is."""
    path, content_type = random.choice(TARGETS)
    good = bytearray(GOOD[path, content_type])
    match random.randrange(6):
        case 0:
            body = random.choice(HOSTILE)
        case 1:
            body = random.randbytes(random.randrange(200))
        case 2:
            body = bytes(good[: random.randrange(len(good))])
        case 3:
            for _ in range(random.randrange(1, 4)):
                good[random.randrange(len(good))] = random.randrange(256)
            body = bytes(good)
        case 4:
            place = random.randrange(len(good))
            body = bytes(good[:place] + random.choice(HOSTILE)[:2000] + good[place:])
        case _:
            body = GOOD[random.choice(TARGETS)]
    if random.random() < 0.2:
        content_type = random.choice(CONTENT_TYPES)
    return path, content_type, body


def _tagged(random: Random) -> tuple[bytes, bytes]:
    """An image with a name of its own, and what has to come back."""
    name = f"{random.getrandbits(64):x}"
    bright = random.random() > 0.5
    label = {"bright": bright, "name": name}
    item = json.dumps({"pixels": [float(bright)], "name": name})
    return item.encode(), json.dumps(label, separators=(",", ":")).encode()


async def _exchanged(reader, writer, path, content_type, body, accept, name):
    """The status, the id and the body of an answer on an open connection."""
    accepted = "" if accept is None else f"Accept: {accept}\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n{accepted}"
        f"Content-Type: {content_type}\r\nX-Request-Id: {name}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    told = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(told.split(" ", 2)[1])
    headers = dict(line.split(": ", 1) for line in told.split("\r\n")[1:-2])
    answer = await reader.readexactly(int(headers["content-length"]))
    return status, headers["x-request-id"], answer, headers.get("connection") == "close"


async def _attacked(url, seed: int) -> Counter[int]:
    """What is answered to the bodies on one connection, every fourth of which is a good one."""
    random = Random(seed)
    statuses: Counter[int] = Counter()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    for number in range(EACH):
        name, accept, expected = f"{seed}-{number}", random.choice(ACCEPTED), None
        path, content_type, body = _hostile(random)
        if number % 4 == 0:
            path, content_type, accept = "/images", JSON, JSON
            body, expected = _tagged(random)
        status, told, answer, closes = await _exchanged(
            reader, writer, path, content_type, body, accept, name
        )
        statuses[status] += 1
        assert told == name
        assert status in {200, 400, 406, 415, 422}, (status, path, content_type, body)
        assert expected is None or (status, answer) == (200, expected)
        if closes:
            writer.close()
            reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.close()
    return statuses


async def test_ten_thousand_hostile_bodies():
    """None is a 500, nobody gets another's answer, no worker dies, and the service is well."""
    async with client_of(documented.service) as client:
        workers = client.running.dispatchers["/images"].workers.pids
        url = URL(client.running.url)
        answered = await asyncio.gather(*(_attacked(url, seed) for seed in range(CONNECTIONS)))
        total = sum(answered, Counter())
        assert total.total() == CONNECTIONS * EACH == 10_000
        assert min(total[status] for status in (200, 400, 406, 415, 422)) > 100
        assert client.running.dispatchers["/images"].workers.pids == workers
        deep = await client.get("/readyz?deep=1")
        assert (deep.status, deep.json["endpoints"]["/images"]) == (200, "ok")
