"""Reads what the admin port of a program tells."""

from collections.abc import AsyncIterator

import aiohttp
import msgspec
from yarl import URL

from adaptive_batching.errors import BatchingError
from adaptive_batching.instrumentation.live import View

_PATIENCE = 5.0  # seconds; something comes every second
_LONGEST = 2**24  # bytes of a message

_decoder = msgspec.json.Decoder(View)


class NotWatchable(BatchingError):
    """There is nothing to look at; the message says what was expected where."""


async def snapshot(url: URL) -> View:
    """All that a program knows of its last two minutes.

    Args:
        url: Of its admin port.

    Raises:
        NotWatchable: It does not answer, or is none of ours.
    """
    async with _session() as session:
        try:
            async with session.get(url / "debug/live") as response:
                return _read(await _checked(response, url).read(), url)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(url, error) from error


async def follow(url: URL) -> AsyncIterator[tuple[bool, View]]:
    """What happens: at first all that is known, then once a second what is new.

    Args:
        url: Of the admin port.

    Yields:
        Whether it is all that is known, and what is told.

    Raises:
        NotWatchable: It does not answer, has stopped, or is none of ours.
    """
    async with _session() as session:
        try:
            async with session.get(url / "debug/live/stream") as response:
                whole = False
                async for line in _checked(response, url).content:
                    if line.startswith(b"event:"):
                        whole = line.endswith(b" whole\n")
                    elif line.startswith(b"data:"):
                        yield whole, _read(line.removeprefix(b"data:"), url)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(url, error) from error
    raise NotWatchable(f"{url} has hung up")


def _session() -> aiohttp.ClientSession:
    patience = aiohttp.ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_PATIENCE)
    return aiohttp.ClientSession(timeout=patience, read_bufsize=_LONGEST)


def _checked(response: aiohttp.ClientResponse, url: URL) -> aiohttp.ClientResponse:
    if response.status == 403:
        raise NotWatchable(f"{url}: expected an address or localhost, got the name {url.host}")
    if response.status == 503:
        raise NotWatchable(f"{url}: too many watch already")
    if response.status != 200:
        hint = "start the service with --admin-port, and give that port"
        raise NotWatchable(f"{url}: expected an admin port, got status {response.status}: {hint}")
    return response


def _read(message: bytes, url: URL) -> View:
    try:
        return _decoder.decode(message)
    except msgspec.MsgspecError as error:
        msg = f"{url}: expected what this version of adaptive_batching tells, got something else"
        raise NotWatchable(f"{msg}: {error}") from error


def _unreachable(url: URL, error: Exception) -> NotWatchable:
    if isinstance(error, TimeoutError):
        return NotWatchable(f"{url} has said nothing for {_PATIENCE:g} s")
    if isinstance(error, aiohttp.ClientConnectorError):
        return NotWatchable(f"{url} can't be reached: {error.os_error.strerror or error.os_error}")
    return NotWatchable(f"{url} does not speak HTTP as we do: {error}")
