"""Names for requests, under which the log tells what the client is not told."""

import itertools
import re
import secrets

from aiohttp import web

_ACCEPTABLE = re.compile(r"[A-Za-z0-9-]{1,64}")
_process = secrets.token_hex(4)  # one draw: a counter is unique as well and costs no system call
_numbers = itertools.count(1)


def request_id(request: web.BaseRequest) -> str:
    """The client's own `X-Request-Id` if it is harmless, else a new one."""
    return acceptable_id(request.headers.get("X-Request-Id"))


def acceptable_id(given: str | None) -> str:
    """An id that a client gave if it is harmless, else a new one."""
    if given is not None and _ACCEPTABLE.fullmatch(given):
        return given
    return new_request_id()


def new_request_id() -> str:
    """An id that no other request of any of our processes has."""
    return f"{_process}-{next(_numbers):x}"
