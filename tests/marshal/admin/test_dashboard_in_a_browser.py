"""The dashboard in a real browser: true numbers, on any screen, by keyboard, and not for ever."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adaptive_batching.core import Batch, BatchRecord, Costs, JobOutcome, Outcome, Reason
from adaptive_batching.wire.item_cost import parse_item_cost
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
OUTCOMES = {each.value for each in JobOutcome}
CHOSEN = "document.getElementById('endpoint').value"
FOCUSED = "document.activeElement.id || document.activeElement.textContent"
DRAWN = """window.drawn = new Map();
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    const key = `${this.textAlign} ${text}`;
    drawn.set(this.canvas, (drawn.get(this.canvas) ?? new Set()).add(key));
    draw.call(this, text, ...place);
}"""
LABELS = (
    "Object.fromEntries([...drawn].map(([on, texts]) => [on.closest('figure').id, [...texts]]))"
)
OVERLAPPING = """(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), boxes = [];
    while (texts.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(texts.currentNode);
        for (const box of range.getClientRects()) boxes.push([texts.currentNode.data, box]);
    }
    return boxes.flatMap(([text, box], index) => boxes.slice(index + 1).filter(([_, other]) =>
        Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1
        && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 4
    ).map(([other]) => `${text} | ${other}`));
})()"""
MUCH = """Promise.all([
    import("./dashboard/panels.js"), import("./dashboard/store.js"),
    fetch("debug/live").then(answer => answer.json()),
]).then(([panels, { Store }, view]) => {
    const store = new Store();
    store.news(view);
    const endpoint = store.endpoints.get("/slow");
    const busiest = { length: 1, arrived: 98765, shed: 12345, queueFull: 12345, done: 74075,
        batches: 12345, items: 98765, releases: { full: 12345 }, workers: 1, busy: 1,
        cost: 98765, ownCost: 1234 };
    const requests = { ...endpoint.requests, done: 9876543210 };
    const much = { ...endpoint, requests, seconds: [busiest], queued: 98765, saturation: 12.34 };
    for (const show of ["showReasons", "showTiles", "showTotals"]) panels[show](much);
    window.overlapping = OVERLAPPING;
}), 1""".replace("OVERLAPPING", OVERLAPPING)
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
    """On a phone nothing scrolls sideways or overlaps; text stands out, and long numbers fit."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    await tab.call("Emulation.setEmulatedMedia", features=[feature])
    for width in (360, 800, 1200):
        await opened(tab, client, width)
        assert not await tab.value(SCROLLED)
        assert await tab.value(CONTRAST) == []
        assert await tab.value(OVERLAPPING) == []
        await tab.value(MUCH)
        await tab.becomes("window.overlapping !== undefined")
        assert await tab.value("overlapping") == []
    page = await tab.value("getComputedStyle(document.body).backgroundColor")
    assert page == {"light": "rgb(244, 246, 249)", "dark": "rgb(16, 21, 28)"}[scheme]


async def test_figures_count_whole_items_and_the_last_minute(tab, client):
    """Axes of items have whole numbers; reasons are of the last minute, totals from the start."""
    await tab.call("Page.enable")
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source=DRAWN)
    await opened(tab, client)
    await tab.becomes(f"({TOTALS}).done + ({TOTALS}).failed === 65")
    labels = await tab.value(LABELS)
    for figure, axis in (("sizes", "right"), ("queue", "right"), ("fit", "center")):
        shown = [text.split()[1] for text in labels[figure] if text.startswith(axis)]
        assert {"0", "1"} <= set(shown)
        assert [text for text in shown if not text.isdigit()] == []
    before = await tab.value(TOTALS)
    reasons = before.keys() - {"batches", "items", *OUTCOMES}
    assert sum(before[each] for each in reasons) == before["batches"] > 0
    for _ in range(61):  # each is taken for a second later
        client.running.broadcast.look()
    await tab.becomes("document.querySelector('#reasons td').className === 'empty'")
    after = await tab.value(TOTALS)
    assert after == {name: before[name] for name in before if name not in reasons}


async def test_it_says_how_much_of_the_work_is_padding(tab, model, before):
    """Where items have costs: of 8, then 8 and 9 padded to 9, one unit in 26."""
    more = {"item_cost": parse_item_cost("chars"), "costs": Costs(padded=True)}
    client = await before(more=more)
    asked = [client.predict(text) for text in ("a" * 8, "b" * 8, "c" * 9)]
    await opened(tab, client)
    await client.together(model, *asked, queued=2)  # the page tells of the last ten seconds
    detail = "document.getElementById('batch-detail').textContent"
    await tab.becomes(f"{detail}.endsWith('batches/s; 4 % of the work is padding')")
    fitted = "document.getElementById('fit-line').textContent"
    assert (await tab.value(fitted)).startswith("milliseconds by cost; fitted: ")
    assert (await tab.value(fitted)).endswith(" cost")


async def test_it_says_nothing_of_costs_where_there_are_none(tab, client):
    """The page is as it is without them."""
    await opened(tab, client)
    words = "document.body.innerText"
    assert "padding" not in await tab.value(words)
    assert "cost" not in await tab.value(words)


async def test_it_says_that_a_model_pads_batches(tab, client):
    """Which sizes are to be declared, below the figure that shows the steps."""
    await opened(tab, client)
    shown = "document.getElementById('advice').innerText"
    assert await tab.value(shown) == ""
    advice = client.running.live.watched["/square"].advice
    for number in range(128):
        size = 1 + number % 16
        record = BatchRecord(
            *(0.0, 5e-3 if size <= 8 else 9e-3, size, 1, None),
            *(Reason.FULL, Outcome.DONE, 0.0, 0.0, 0),
            padded_size=size,
        )
        advice.batch_ended(Batch([], size, None, Reason.FULL, 0.0, 0.0, 0, 0), record)
    await tab.becomes(f"{shown} === '9 items take as long as 16: declare sizes=[8, 16]'")
    assert await tab.value(OVERLAPPING) == []
    assert await tab.value(CONTRAST) == []


async def test_it_works_by_keyboard(tab, client):
    """Choose an endpoint, then look up values in a figure."""
    await opened(tab, client)
    await tab.press("Tab")
    assert await tab.value(FOCUSED) == "endpoint"
    await tab.press("ArrowDown")
    await tab.becomes(f"{CHOSEN} === '/slow' && document.title.includes('/slow')")
    await tab.becomes(r"/\d/.test(document.querySelector('#rates b').textContent)")
    in_rates = "document.activeElement.closest('#rates') !== null"
    for _ in range(20):
        await tab.press("Tab")
        if await tab.value(in_rates):
            break
    assert await tab.value(in_rates)
    cursor = "getComputedStyle(document.querySelector('#rates .u-cursor-x')).transform"
    before = await tab.value(cursor)
    await tab.press("ArrowLeft")
    await tab.becomes(f"{cursor} !== '{before}'")


async def test_it_says_so_when_nothing_comes_and_comes_back(tab, unused_tcp_port):
    """A program that is started again is shown from its beginning, without a click."""
    at = ("127.0.0.1", unused_tcp_port)
    async with client_of(apps.service, admin=at) as client:
        await client.post("/square", 3)
        await opened(tab, client)
        await tab.becomes(f"({TOTALS}).done === 1")
    silent = r"/^no data for \d+ s/"  # each number is shown for a second only
    await tab.becomes(f"{silent}.test(document.getElementById('link').innerText)")
    async with client_of(apps.service, admin=at):
        await tab.becomes(f"!!({LIVE}) && ({TOTALS}).done === 0")
