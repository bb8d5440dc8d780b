"""How many texts a second are answered in time, with and without their costs.

    python measure.py [RATE] [SECONDS]

Both services run one worker, one after the other in turns, and meet the same texts at the same
instants; their lengths are lognormal, as those of sentences and paragraphs.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from itertools import starmap

import aiohttp
import numpy as np

SERVE = [sys.executable, "-m", "adaptive_batching", "serve", "app:service"]
IN_TIME = 0.5  # seconds, the max_latency of app.py


def texts(number: int, rng: np.random.Generator) -> list[str]:
    lengths = np.clip(rng.lognormal(np.log(45), 0.8, number), 1, 512).astype(int)
    return [" ".join(f"w{word}" for word in rng.integers(0, 9_999, each)) for each in lengths]


async def asked(url: str, arrivals: Sequence[float], bodies: Sequence[str]) -> float:
    """Share of the texts that are answered in time."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        begin = time.monotonic()

        async def one(arrival: float, body: str) -> bool:
            await asyncio.sleep(begin + arrival - time.monotonic())
            async with session.post(url, json=body) as reply:
                await reply.read()
                late = time.monotonic() - begin - arrival > IN_TIME
                return reply.status == 200 and not late

        answers = await asyncio.gather(*starmap(one, zip(arrivals, bodies, strict=True)))
    return sum(answers) / len(answers)


async def in_time(rate: float, seconds: float, seed: int, environment: dict[str, str]) -> float:
    """Texts that a service answers in time in a second, once it has learned their durations."""
    rng = np.random.default_rng(seed)
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        *SERVE, "--port", "0", "--workers", "1", env={**os.environ, **environment}, stdout=pipe
    )
    assert server.stdout is not None
    words = (await server.stdout.readline()).decode().split()
    url = next(word for word in words if word.startswith("http"))
    share = 0.0
    for length in (seconds / 4, seconds):  # the first is not counted
        number = rng.poisson(rate * length)
        share = await asked(
            url, np.sort(rng.uniform(0, length, number)).tolist(), texts(number, rng)
        )
    server.send_signal(signal.SIGTERM)
    await server.wait()
    return share * rate


async def main(rate: float = 300.0, seconds: float = 8.0) -> None:
    ratios = []
    for seed in range(3):
        alike = await in_time(rate, seconds, seed, {"ALIKE": "1"})
        by_cost = await in_time(rate, seconds, seed, {})
        ratios.append(by_cost / alike)
        print(f"in time of {rate:.0f}/s: {alike:.0f} alike, {by_cost:.0f} by cost", flush=True)
    print(f"by cost, {np.median(ratios):.2f} times as many (median)")


asyncio.run(main(*map(float, sys.argv[1:])))
