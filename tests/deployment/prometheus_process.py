"""A real Prometheus on the loopback address, in a directory of its own."""

import asyncio
import json
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp


class Prometheus:
    """Asks a Prometheus that runs."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression, now; a query that it does not understand is an error."""
        return (await self._get("query", query=expression))["result"]

    async def value(self, expression: str) -> float | None:
        """The value of the only series of an expression; None if there is none yet."""
        found = await self.query(expression)
        return float(found[0]["value"][1]) if len(found) == 1 else None

    async def rules(self) -> list[dict[str, Any]]:
        """The rules that it evaluates."""
        groups = (await self._get("rules"))["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def ready(self) -> bool:
        """Whether it answers."""
        try:
            async with self._session.get(f"{self._url}/-/ready") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def _get(self, what: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{what}"
        async with self._session.get(url, params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", answer
        return answer["data"]


@asynccontextmanager
async def prometheus(
    directory: Path, port: int, target: str, rule_files: Sequence[Path]
) -> AsyncIterator[Prometheus]:
    """Have a target scraped five times a second."""
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": list(map(str, rule_files)),
        "scrape_configs": [{"job_name": "s", "static_configs": [{"targets": [target]}]}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            asked = Prometheus(f"http://127.0.0.1:{port}", session)
            while not await asked.ready():  # noqa: ASYNC110  another process's
                await asyncio.sleep(0.05)
            yield asked
    finally:
        process.kill()  # there is nothing that it should save
        await process.wait()
