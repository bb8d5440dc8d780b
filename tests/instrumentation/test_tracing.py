"""Spans of requests and batches, as the SDK has them in memory."""

import asyncio
import subprocess
import sys

import aiohttp
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from adaptive_batching import batched
from adaptive_batching.core import JobOutcome
from adaptive_batching.instrumentation.tracing import Tracing
from adaptive_batching.marshal.service.service import Service
from adaptive_batching.marshal.service.shared_workers import SharedWorkers
from tests.marshal.client import client_of, until
from tests.marshal.conftest import before, model

__all__ = ["before", "model"]  # fixtures

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Spans:
    """Where spans of a test go."""

    def __init__(self):
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracing = Tracing(self.provider)

    def named(self, beginning):
        ended = self._memory.get_finished_spans()
        return [span for span in ended if span.name.startswith(beginning)]

    def only(self, beginning):
        [span] = self.named(beginning)
        return span


@pytest.fixture
def spans():
    return Spans()


def service(max_batch_size=4, policy="window:1h", **terms):
    made = Service()

    @made.endpoint("/echo", max_batch_size=max_batch_size, policy=policy, **terms)
    async def echo(items):
        if "bad" in items:
            raise ValueError(items)
        return items

    return made


def linked(span):
    """Which spans it names."""
    return {link.context.span_id for link in span.links}


async def test_requests_and_their_batch_name_each_other(spans):
    """Four requests in one batch: five spans, eight links, one trace from the client on."""
    async with client_of(service(), tracer=spans.tracing) as client:
        await asyncio.gather(*(client.post("/echo", n, headers=HEADERS) for n in range(4)))
    batch, requests = spans.only("batch"), spans.named("POST /echo")
    assert batch.name == "batch /echo"
    assert batch.parent is None
    assert linked(batch) == {each.context.span_id for each in requests}
    for each in requests:
        assert linked(each) == {batch.context.span_id}
        assert format_trace_id(each.context.trace_id) == TRACE
        assert format_span_id(each.parent.span_id) == PARENT
        assert each.kind is SpanKind.SERVER
        assert each.attributes["http.route"] == "/echo"
        assert each.attributes["http.response.status_code"] == 200
        assert each.attributes["adaptive_batching.outcome"] == "done"
        assert 0 <= each.attributes["adaptive_batching.queue_seconds"] < 5
        assert each.start_time <= batch.start_time <= batch.end_time <= each.end_time
    about = {
        name.removeprefix("adaptive_batching.batch."): value
        for name, value in batch.attributes.items()
    }
    assert (about["size"], about["requests"], about["reason"]) == (4, 4, "full")
    assert (about["outcome"], about["links_left_out"]) == ("done", 0)


async def test_links_that_the_sdk_would_drop_are_counted(spans):
    """It keeps 128 of 200; each request names its batch all the same."""
    async with client_of(service(max_batch_size=200), tracer=spans.tracing) as client:
        await asyncio.gather(*(client.post("/echo", n) for n in range(200)))
    batch, requests = spans.only("batch"), spans.named("POST")
    assert (len(batch.links), batch.dropped_links) == (128, 0)
    assert batch.attributes["adaptive_batching.batch.links_left_out"] == 72
    assert len(requests) == 200
    assert all(linked(each) == {batch.context.span_id} for each in requests)


async def test_who_runs_again_names_each_of_his_batches(spans):
    """A bad item among two: both were in the first batch, and each in one of its own."""
    made = service(max_batch_size=2, idempotent=True)
    async with client_of(made, tracer=spans.tracing) as client:
        await asyncio.gather(*(client.post("/echo", item) for item in ("good", "bad")))
    batches = spans.named("batch")
    assert [each.attributes["adaptive_batching.batch.reason"] for each in batches] == [
        "full",
        "bisect",
        "bisect",
    ]
    failed = [each for each in batches if each.status.status_code is StatusCode.ERROR]
    assert {each.attributes["adaptive_batching.batch.outcome"] for each in failed} == {"failed"}
    ends = {
        each.attributes["adaptive_batching.outcome"]: each for each in spans.named("POST /echo")
    }
    assert [len(ends[how].links) for how in ("done", "failed")] == [2, 2]
    assert ends["failed"].status.status_code is StatusCode.ERROR
    assert ends["done"].status.status_code is StatusCode.UNSET


async def test_who_was_refused_is_in_no_batch(spans):
    """His span says so."""
    made = service(max_batch_size=2, max_queue=1)
    async with client_of(made, tracer=spans.tracing) as client:
        waiting = asyncio.create_task(client.post("/echo", 1))
        await until(lambda: client.stats("/echo").queued)
        assert (await client.post("/echo", 2)).status == 503
        [refused] = spans.named("POST /echo")
        waiting.cancel()
    assert refused.attributes["adaptive_batching.outcome"] == "queue_full"
    assert refused.attributes["http.response.status_code"] == 503
    assert not refused.links


async def test_a_client_that_leaves_ends_its_span(spans, caplog):
    """While its batch runs: what becomes of that is told to nobody whose span is over."""
    go_on, made = asyncio.Event(), Service()

    @made.endpoint("/slow", max_batch_size=1)
    async def slow(items):
        await go_on.wait()
        return items

    async with client_of(made, tracer=spans.tracing) as client:
        leaving = asyncio.create_task(client.post("/slow", 1))
        await until(lambda: client.stats("/slow").running)
        leaving.cancel()
        await until(lambda: spans.named("POST /slow"))
        go_on.set()
        await until(lambda: spans.named("batch"))
    assert spans.only("POST /slow").attributes["error.type"] == "CancelledError"
    assert not caplog.records


async def test_a_client_that_leaves_with_its_answer_on_the_way_ends_its_span_once(spans, caplog):
    """The SDK would warn of the second time."""
    made = Service()

    @made.endpoint("/bye", max_batch_size=1)
    async def bye(items):
        [connection] = client.running._server._connections
        connection.abort()  # the loop will say so before it hands over what returns here
        return items

    async with client_of(made, tracer=spans.tracing) as client:
        with pytest.raises(aiohttp.ClientError):
            await client.post("/bye", 1)
        await until(
            lambda: client.running.dispatchers["/bye"].stats().requests[JobOutcome.CANCELLED]
        )
    assert spans.only("POST /bye").attributes["error.type"] == "CancelledError"
    assert not caplog.records


async def test_a_share_of_the_requests_is_kept_with_their_batches(spans):
    """None of those that bring no trace along; who does finds its batch all the same."""
    tracing = Tracing(spans.provider, share=0.0)
    async with client_of(service(), tracer=tracing) as client:
        traced = client.post("/echo", 0, headers=HEADERS)
        await asyncio.gather(traced, *(client.post("/echo", n) for n in range(1, 8)))
    request, batch = spans.only("POST /echo"), spans.only("batch")
    assert linked(request) == {batch.context.span_id}
    assert linked(batch) == {request.context.span_id}
    assert batch.attributes["adaptive_batching.batch.requests"] == 4
    with pytest.raises(ValueError, match="share: expected 0 to 1, got 2"):
        Tracing(share=2)


async def test_no_client_makes_up_the_name_of_a_span(spans):
    """Names are few, whatever is asked for: tracing systems index them."""
    async with client_of(service(), tracer=spans.tracing) as client:
        for number in range(20):
            await client.send("PURGE", f"/{number}")
            await client.get(f"/{number}")
    assert {each.name for each in spans.named("")} == {"GET", "_OTHER"}


async def test_a_batched_function_belongs_to_its_callers_span(spans):
    """Without any HTTP: the observer is enough."""

    @batched(max_batch_size=2, policy="window:1h", observers=[spans.tracing.observer("double")])
    async def double(numbers):
        seen.append(trace.get_current_span().get_span_context().span_id)
        return [2 * number for number in numbers]

    seen = []
    tracer = spans.provider.get_tracer("test")
    with tracer.start_as_current_span("caller"):
        assert await asyncio.gather(double(1), double(2)) == [2, 4]
    batch, caller = spans.only("batch double"), spans.only("caller")
    assert linked(batch) == {caller.context.span_id}
    assert linked(caller) == {batch.context.span_id}
    assert seen == [batch.context.span_id]


async def test_endpoints_that_share_workers_are_told_apart(spans):
    """A batch has the name of its own endpoint, and no other observer hears of it."""
    made, shared = Service(), SharedWorkers("tasks:1")
    for path in ("/one", "/two"):

        @made.endpoint(path, workers=shared)
        async def echo(items):
            return items

    async with client_of(made, tracer=spans.tracing) as client:
        for path in ("/one", "/two"):
            await client.post(path, 1)
    for path in ("/one", "/two"):
        assert linked(spans.only(f"batch {path}")) == {spans.only(f"POST {path}").context.span_id}


def test_it_is_not_even_imported_without_being_asked_for():
    """Neither by the package nor by the command line."""
    code = "import adaptive_batching.cli, sys; assert 'opentelemetry' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --------------------------------------------------------------------------- what servers are told


def told(headers):
    """Trace and span that a server was told of."""
    _, trace_id, span_id, _ = headers["traceparent"].split("-")
    return trace_id, span_id


def ids(span):
    return format_trace_id(span.context.trace_id), format_span_id(span.context.span_id)


async def test_a_request_alone_takes_its_trace_to_the_server(model, before, spans):
    """As if we were not between them, but for our own span."""
    client = await before(tracer=spans.tracing)
    await client.predict(1, **HEADERS)
    request = spans.only("POST models")
    assert told(model.seen[-1]) == ids(request)
    assert told(model.seen[-1])[0] == TRACE
    assert linked(spans.only("batch models")) == {request.context.span_id}


async def test_a_trace_that_nobody_keeps_is_passed_on_as_such(model, before, spans):
    """The client has decided: there are no spans of it, and the server is told so."""
    client = await before(tracer=spans.tracing)
    unkept = {"traceparent": f"00-{TRACE}-{PARENT}-00", "baggage": "who=me"}
    await client.predict(1, **unkept)
    assert model.seen[-1]["traceparent"].startswith(f"00-{TRACE}-")
    assert model.seen[-1]["traceparent"].endswith("-00")
    assert model.seen[-1]["baggage"] == "who=me"
    assert not spans.named("")


async def test_of_a_merged_batch_the_server_is_told_the_batchs_own(model, before, spans):
    """No member's trace is favoured."""
    client = await before(tracer=spans.tracing)
    await client.together(model, client.predict(0), client.predict(1), client.predict(2), queued=2)
    merged = [
        each
        for each in spans.named("batch")
        if each.attributes["adaptive_batching.batch.requests"] == 2
    ]
    assert [ids(each) for each in merged] == [told(model.seen[-1])]


async def test_what_is_passed_on_takes_its_trace_along(model, before, spans):
    """The client's header is replaced by ours, of the same trace."""
    client = await before(tracer=spans.tracing)
    async with client.session.get(f"{client.url}/else", headers=HEADERS) as response:
        assert response.status == 200
    assert told(model.seen[-1]) == ids(spans.only("GET models"))
    assert told(model.seen[-1])[0] == TRACE
    assert not spans.named("batch")
