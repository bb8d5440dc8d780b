"""wrk, which sends more requests a second than any Python client."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

import msgspec

from adaptive_batching.load.plans import ClosedLoop, Throughput

_SCRIPT = """\
wrk.method = "POST"
%s
wrk.body = %s
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\n{"tool":"wrk","requests":%%d,"failed":%%d,"duration":%%.6f,"p50":%%.6f,"p99":%%.6f}\\n',
    summary.requests, e.status + e.connect + e.read + e.write + e.timeout,
    summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
"""

_NAMES = """\
local line, rest, number
init = function()
  local whole = wrk.format()
  local _, last = whole:find("\\r\\n", 1, true)
  line, rest, number = whole:sub(1, last), whole:sub(last + 1), 0
end
request = function()
  number = number + 1
  return line .. "X-Request-Id: " .. number .. "\\r\\n" .. rest
end
"""


def command() -> list[str] | None:
    """How to start it; None if it is not installed."""
    path = shutil.which("wrk")
    return None if path is None else [path]


@contextmanager
def script(plan: ClosedLoop) -> Iterator[str]:
    """A file that tells wrk what to send and how to report."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        headers = [
            f"wrk.headers[{_text(name.encode())}] = {_text(value.encode())}"
            for name, value in plan.headers.items()
        ]
        file.write(_SCRIPT % ("\n".join(headers), _text(plan.body)))
        if plan.named:
            file.write(_NAMES)
        file.flush()
        yield file.name


def arguments(plan: ClosedLoop, path: str) -> list[str]:
    """Its command line; it knows whole seconds only."""
    seconds = f"-d{ceil(plan.duration)}s"
    return ["-t1", f"-c{plan.connections}", seconds, "-s", path, plan.url]


def result(output: bytes) -> Throughput:
    """Read what the script wrote, below what wrk itself has to say."""
    return msgspec.json.decode(output.splitlines()[-1], type=Throughput)


def _text(content: bytes) -> str:
    """As Lua writes it."""
    escaped = "".join(f"\\{byte:03d}" for byte in content)
    return f'"{escaped}"'
