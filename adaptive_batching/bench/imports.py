"""How long a program takes to import what it uses of the package, beside importing asyncio."""

import asyncio
import os
import sys
from statistics import median

from adaptive_batching.bench.harness.report import Report, Row, Verdict, ratio

_BARE = "import asyncio"
_OURS = {
    "the package": "import adaptive_batching",
    "batched": "from adaptive_batching import batched",
    "a handler": "from adaptive_batching import batched; batched()(print)",
    "Service": "from adaptive_batching import Service",
}
_MOST = 120.0  # ms, for what decorates a function

# The interpreter's own start is not counted, nor is what it imports before it runs a line.
_TIMED = "import time; begun = time.perf_counter(); {}; print(time.perf_counter() - begun)"

# Installed packages are compiled; a shell may forbid to keep what was compiled here.
_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


async def measure(*, quick: bool) -> Report:
    """Import each in fresh interpreters, by turns with asyncio."""
    rows: list[Row] = []
    verdicts = []
    for name, statement in _OURS.items():
        await _seconds(statement)  # compiles what was not
        ours, bare = [], []
        for _ in range(2 if quick else 15):
            bare.append(await _seconds(_BARE))
            ours.append(await _seconds(statement))
        milliseconds = median(ours) * 1e3
        rows.append({"imported": name, "ms": milliseconds, "times asyncio": ratio(ours, bare)})
        if name == "batched":
            verdicts.append(Verdict(name, milliseconds, "at most", _MOST, "ms"))
    return Report("import: in fresh interpreters, beside `import asyncio`", rows, verdicts)


async def _seconds(statement: str) -> float:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _TIMED.format(statement),
        stdout=asyncio.subprocess.PIPE,
        env=_ENVIRONMENT,
    )
    printed, _ = await program.communicate()
    return float(printed)
