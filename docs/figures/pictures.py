"""Takes the pictures in docs/images that show running programs; docs/contributing.md says how.

`python -m docs.figures.pictures [SECONDS]` serves the demo's model under load for so long and takes
pictures of its dashboard and of `top`. Two minutes fill the dashboard's figures.
"""

import asyncio
import base64
import io
import re
import sys
import tempfile
from pathlib import Path

import msgspec
from PIL import Image
from rich.console import Console
from yarl import URL

from adaptive_batching import Service
from adaptive_batching.demo.digits import Digits, images
from adaptive_batching.demo.experiment import MAX_BATCH_SIZE
from adaptive_batching.load import OpenLoop, run_open_loop
from adaptive_batching.top import LastMinute, snapshot
from adaptive_batching.top.screen import drawn
from tests.plots.chromium import Tab, browser

IMAGES = Path(__file__).parents[1] / "images"
ENDPOINT = "/digit"
RATES = (30.0, 90.0, 150.0, 60.0)  # requests a second, one after another
WIDTH = 1200  # pixels
COLOURS = 160


async def main(seconds: float) -> None:
    """Serve, send requests, and take the pictures shortly before the last of them."""
    samples = images()
    service = Service("digits")
    service.endpoint(ENDPOINT, max_latency=1.0, max_batch_size=MAX_BATCH_SIZE, workers=2)(Digits)
    async with service.running(admin=("127.0.0.1", 0)) as running:
        load = OpenLoop(
            url=running.url + ENDPOINT,
            bodies=[msgspec.json.encode(sample) for sample in samples],
            phases=[(rate, seconds / len(RATES)) for rate in RATES],
        )
        sending = asyncio.ensure_future(run_open_loop(load))
        assert running.admin_url is not None
        await asyncio.sleep(0.9 * seconds)
        await photograph_top(URL(running.admin_url))
        taken = await photograph_dashboard(running.admin_url)
        await sending
    for name, picture in taken.items():
        few = (
            Image.open(io.BytesIO(picture))
            .convert("RGB")
            .quantize(COLOURS, dither=Image.Dither.NONE)
        )
        few.save(IMAGES / name, optimize=True)


async def photograph_top(url: URL) -> None:
    """As SVG, without the fonts from elsewhere that rich would have it load."""
    state = LastMinute()
    state.tell(await snapshot(url), whole=True)
    console = Console(record=True, width=92, file=io.StringIO())
    console.print(drawn(state, "http://127.0.0.1:9000"))
    drawing = console.export_svg(title="adaptive-batching top", unique_id="top")
    drawing = re.sub(r"@font-face \{.*?\}\n", "", drawing, flags=re.DOTALL)
    (IMAGES / "top.svg").write_text(drawing.replace("Fira Code, ", ""))


async def photograph_dashboard(url: str) -> dict[str, bytes]:
    """On a desk, in both colour schemes; compressed later, for that would hold up the service."""
    taken = {}
    with tempfile.TemporaryDirectory() as profile:
        async with browser(Path(profile)) as tab:
            await tab.call("Emulation.setScrollbarsHidden", hidden=True)
            await tab.open(f"{url}/", width=WIDTH)
            await tab.becomes("!!document.querySelector('[data-total]')")
            for scheme in ("light", "dark"):
                feature = {"name": "prefers-color-scheme", "value": scheme}
                await tab.call("Emulation.setEmulatedMedia", features=[feature])
                taken[f"dashboard-{scheme}.png"] = await photograph(tab)
    return taken


async def photograph(tab: Tab) -> bytes:
    """The page down to the workers."""
    bottom = "document.getElementById('timeline').getBoundingClientRect().bottom"
    screen = {"width": WIDTH, "deviceScaleFactor": 1, "mobile": False}
    height = 10 + int(await tab.value(bottom))
    await tab.call("Emulation.setDeviceMetricsOverride", height=height, **screen)
    return base64.b64decode((await tab.call("Page.captureScreenshot"))["data"])


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if sys.argv[1:] else 130.0))
