"""The dashboard in a real browser: true numbers, on any screen, by keyboard, and not for ever."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.marshal import apps
from tests.marshal.admin.test_admin import LOOPBACK, ask
from tests.marshal.client import client_of
from tests.plots.chromium import CHROMIUM, browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

TOTALS = """Object.fromEntries([
    ...document.querySelectorAll("[data-total], #reasons [data-reason]")
].map(each => [
    each.dataset.total ?? each.dataset.reason, +each.textContent.replaceAll(",", "")
]))"""
LIVE = """document.getElementById('link').dataset.state === 'live'
    && document.querySelector('[data-total]')"""
CHOSEN = "document.getElementById('endpoint').value"
FOCUSED = "document.activeElement.id || document.activeElement.textContent"
SCROLLED = "document.documentElement.scrollWidth > innerWidth"
CONTRAST = """[...document.querySelectorAll("main *")].filter(each => {
    const channels = colour => (colour.match(/[\\d.]+/g) ?? []).map(Number);
    const luminance = colour => channels(colour).slice(0, 3).map(c => c / 255)
        .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, index) => sum + c * [.2126, .7152, .0722][index], 0);
    const card = each.closest(".tile, figure, #overview");
    const texts = [...each.childNodes].filter(node => node.nodeType === 3 && node.data.trim());
    if (!card || !texts.length) return false;
    const [light, dark] = [getComputedStyle(card).backgroundColor, getComputedStyle(each).color]
        .map(luminance).sort((a, b) => b - a);
    return (light + .05) / (dark + .05) < 4.5;
}).map(each => each.textContent)"""


@pytest.fixture
async def client():
    """A service that has answered: 60 in small batches, 5 that failed to be numbers, 40 slowly."""
    async with client_of(apps.service, admin=LOOPBACK) as client:
        calls = [client.post("/square", number) for number in range(60)]
        calls += [client.post("/square", "text") for _ in range(5)]
        calls += [client.post("/slow", 0) for _ in range(40)]
        await asyncio.gather(*calls)
        yield client


@pytest.fixture
async def tab(tmp_path):
    async with browser(tmp_path / "profile") as tab:
        yield tab


async def opened(tab, client, width=1200):
    await tab.open(f"{client.running.admin_url}/", width=width)
    await tab.becomes(f"!!({LIVE})")


async def metrics(client, endpoint, *names):
    """The values of an endpoint's metrics, by the value of their other label."""
    text = (await ask(client, "GET", "/metrics")).body.decode()
    return {
        next((value for label, value in each.labels.items() if label != "endpoint"), each.name): (
            int(each.value)
        )
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.labels.get("endpoint") == endpoint and each.name in names
    }


async def test_it_shows_what_the_metrics_say(tab, client):
    """Requests by outcome, batches by reason, items; of the endpoint that is chosen."""
    await opened(tab, client)
    for path, requests in (("/square", 65), ("/slow", 40)):
        await tab.call("Runtime.evaluate", expression=f"location.hash = '{path}'")
        await tab.becomes(f"{CHOSEN} === '{path}'")
        await tab.becomes(f"({TOTALS}).done + ({TOTALS}).failed === {requests}")
        shown = await tab.value(TOTALS)
        outcomes = await metrics(client, path, "adaptive_batching_requests_total")
        assert {name: shown[name] for name in outcomes} == outcomes
        reasons = await metrics(client, path, "adaptive_batching_batches_total")
        assert {name: shown.get(name, 0) for name in reasons} == reasons
        assert shown["batches"] == sum(reasons.values())
        items = await metrics(client, path, "adaptive_batching_batch_size_sum")
        assert [shown["items"]] == [*items.values()]


async def test_it_asks_nobody_else_and_complains_of_nothing(tab, client):
    """Below 200 KiB come over the wire, all of it from us."""
    await opened(tab, client)
    urls = {each["request"]["url"] for each in tab.named("Network.requestWillBeSent")}
    assert {url.startswith(f"{client.running.admin_url}/") for url in urls} == {True}
    received = sum(each["encodedDataLength"] for each in tab.named("Network.dataReceived"))
    assert received < 200 * 1024
    kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
    assert tab.named(*kinds) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_can_be_read_on_any_screen(tab, client, scheme):
    """Nothing has to be scrolled sideways on a phone; all text stands out from what is behind."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    await tab.call("Emulation.setEmulatedMedia", features=[feature])
    for width in (360, 800, 1200):
        await opened(tab, client, width)
        assert not await tab.value(SCROLLED)
        assert await tab.value(CONTRAST) == []
    page = await tab.value("getComputedStyle(document.body).backgroundColor")
    assert page == {"light": "rgb(244, 246, 249)", "dark": "rgb(16, 21, 28)"}[scheme]


async def test_it_works_by_keyboard(tab, client):
    """Choose an endpoint, then look up values in a figure."""
    await opened(tab, client)
    await tab.press("Tab")
    assert await tab.value(FOCUSED) == "endpoint"
    await tab.press("ArrowDown")
    await tab.becomes(f"{CHOSEN} === '/slow' && document.title.includes('/slow')")
    await tab.becomes("document.querySelector('#rates b').textContent !== ''")
    in_rates = "document.activeElement.closest('#rates') !== null"
    for _ in range(20):
        await tab.press("Tab")
        if await tab.value(in_rates):
            break
    assert await tab.value(in_rates)
    cursor = "getComputedStyle(document.querySelector('#rates .u-cursor-x')).transform"
    before = await tab.value(cursor)
    await tab.press("ArrowLeft")
    assert await tab.value(cursor) != before


async def test_it_says_so_when_nothing_comes_and_comes_back(tab, unused_tcp_port):
    """A program that is started again is shown from its beginning, without a click."""
    at = ("127.0.0.1", unused_tcp_port)
    async with client_of(apps.service, admin=at) as client:
        await client.post("/square", 3)
        await opened(tab, client)
        await tab.becomes(f"({TOTALS}).done === 1")
    await tab.becomes("document.getElementById('link').innerText.startsWith('no data for 4 s')")
    async with client_of(apps.service, admin=at):
        await tab.becomes(f"!!({LIVE}) && ({TOTALS}).done === 0")
