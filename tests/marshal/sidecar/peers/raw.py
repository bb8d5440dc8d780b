"""HTTP as bytes: what a client really sends, and how many answers it really gets."""

import asyncio
from dataclasses import dataclass

from multidict import CIMultiDict
from yarl import URL


@dataclass
class Answer:
    """One answer on a connection."""

    status: int
    headers: CIMultiDict
    body: bytes


async def connect(url):
    """Open a connection to a server."""
    parts = URL(url)
    return await asyncio.open_connection(parts.host, parts.port)


async def exchange(url, *pieces):
    """Send bytes on a connection of their own and read until it is closed."""
    reader, writer = await connect(url)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def parsed(stream):
    """All answers of a stream; interim ones as well."""
    answers = []
    while stream:
        head, _, stream = stream.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = CIMultiDict(line.split(": ", 1) for line in lines)
        status = int(first.split()[1])
        if headers.get("Transfer-Encoding") == "chunked":
            body, stream = _unchunked(stream, headers)
        elif status >= 200:
            length = int(headers.get("Content-Length", 0))
            body, stream = stream[:length], stream[length:]
        else:
            body = b""
        answers.append(Answer(status, headers, body))
    return answers


def _unchunked(stream, headers):
    """The body and what follows it; trailers are added to the headers."""
    body = b""
    while True:
        size, _, stream = stream.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        body, stream = body + stream[:length], stream[length + 2 :]
    while (line := stream.partition(b"\r\n"))[0]:
        name, _, value = line[0].decode().partition(": ")
        headers.add(name, value)
        stream = line[2]
    return body, line[2]
