"""How long a client is ready to wait, as it says in its headers: always as time that is left.

`X-Request-Timeout-Ms`, `X-Envoy-Expected-Rq-Timeout-Ms` and `grpc-timeout` mean the same. What
can't be read is ignored: it is a hint, and a request is not refused for it.
"""

import re
from collections.abc import Mapping
from math import inf

_MILLISECONDS = ("x-request-timeout-ms", "x-envoy-expected-rq-timeout-ms")
_GRPC = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}  # of seconds


def deadline_of(headers: Mapping[str, str]) -> float:
    """Seconds that the client waits from now on; infinite if it does not say."""
    waits = inf
    for name in _MILLISECONDS:
        text = headers.get(name)
        if text is not None:
            waits = min(waits, _milliseconds(text))
    text = headers.get("grpc-timeout")
    return waits if text is None else min(waits, _grpc(text))


def _milliseconds(text: str) -> float:
    valid = text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0
    return int(text) * 1e-3 if valid else inf


def _grpc(text: str) -> float:
    match = _GRPC.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match and int(match[1]) else inf
