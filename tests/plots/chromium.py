"""A real browser, told what to do over its DevTools protocol."""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)

Event = dict[str, Any]

_KEY_CODES = {"Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowDown": 40}


class Tab:
    """One page, and all that it asked for or complained of."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._calls = 0
        self.events: list[Event] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        """Ask, and keep what happens until the answer comes."""
        self._calls += 1
        await self._socket.send_json({"id": self._calls, "method": method, "params": parameters})
        while True:
            said = await self._socket.receive_json()
            if said.get("id") == self._calls:
                assert "error" not in said, said
                return said["result"]
            self.events.append(said)

    async def open(self, page: Path | str, *, width: int) -> None:
        """Load a file or a URL anew on a screen of that many pixels."""
        for domain in ("Log", "Network", "Page", "Runtime"):
            await self.call(f"{domain}.enable")
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **screen)
        self.events.clear()
        await self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not self.named("Page.loadEventFired"):
            self.events.append(await self._socket.receive_json())

    def named(self, *methods: str) -> list[Event]:
        """The events of these kinds since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    async def value(self, expression: str) -> Any:
        """Of a JavaScript expression on the page."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"]["value"]

    async def becomes(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        while not await self.value(expression):  # noqa: ASYNC110  pages have no events
            await asyncio.sleep(0.05)

    async def press(self, *keys: str) -> None:
        """Some keys, one after the other."""
        for key in keys:
            for kind in ("rawKeyDown", "keyUp"):
                code = _KEY_CODES[key]
                how = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
                await self.call("Input.dispatchKeyEvent", **how)

    async def printed(self) -> bytes:
        """As PDF on paper of A4."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
        return base64.b64decode((await self.call("Page.printToPDF", **paper))["data"])


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Tab]:
    """A tab of a browser with an empty profile, which ends with the block."""
    assert CHROMIUM is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *options,
        f"--user-data-dir={profile}",
        "about:blank",
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        port = 0
        async for line in process.stderr:
            if b"DevTools listening on" in line:
                port = int(line.split(b":")[-1].split(b"/")[0])
                break
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                tabs = json.loads(await answer.text())
            address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Tab(socket)
                with suppress(TypeError):  # it hangs up instead of an answer
                    await Tab(socket).call("Browser.close")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
