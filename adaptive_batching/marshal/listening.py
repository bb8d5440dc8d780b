"""Where connections come in, and what is said if they can't."""

import os
import socket

from aiohttp import web

_BACKLOG = 1024  # a burst of new connections; the kernel cuts it to net.core.somaxconn


class ListenError(OSError):
    """Nobody can be listened to at an address.

    Attributes:
        unresolved: Whether it was a name that means nothing here.
    """

    def __init__(self, host: str, port: int, error: OSError | UnicodeError) -> None:
        self.unresolved = isinstance(error, socket.gaierror | UnicodeError)
        reason = "the host's name can't be resolved" if self.unresolved else _reason(error)
        super().__init__(f"can't listen on {host} port {port}: {reason}")


async def listen(runner: web.ServerRunner, host: str, port: int) -> str:
    """Accept connections from now on, and return the URL.

    Raises:
        ListenError: The port is taken, or the address is not ours.
    """
    site = web.TCPSite(runner, host, port, backlog=_BACKLOG)
    try:
        await site.start()
    except (OSError, UnicodeError) as error:
        raise ListenError(host, port, error) from error
    return f"http://{f'[{host}]' if ':' in host else host}:{site.port}"


def _reason(error: OSError | UnicodeError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else str(error)
