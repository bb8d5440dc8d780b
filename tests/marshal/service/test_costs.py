"""Endpoints whose items don't cost the same: by their bytes, by a function, in a pipeline."""

import asyncio
import dataclasses
from collections import Counter

import msgspec
import pytest

from adaptive_batching import Pipeline, Service, SharedWorkers, Stage
from adaptive_batching.core import JobOutcome
from adaptive_batching.errors import CostError, JobTooLarge
from tests.marshal.client import client_of


@dataclasses.dataclass
class Text:
    text: str


class Texts:
    """A service with one endpoint of texts, which remembers its batches and what it weighed."""

    def __init__(self, **how):
        self.batches = []
        self.service = Service("texts")

        @self.service.endpoint("/lengths", **how)
        async def lengths(items: list[Text]) -> list[int]:
            self.batches.append([len(item.text) for item in items])
            return [len(item.text) for item in items]


def letters(item):
    return len(item.text)


def of_bytes(body: bytes) -> int:
    return body.count(b"a")


WEIGHED_AS = {  # what two texts of 3 and 5 letters a cost
    "a function of the item": (letters, 3, 5),
    "a function of the bytes": (of_bytes, 3, 5),
    "the length of the body": ("bytes", len(b'{"text":"aaa"}'), len(b'{"text":"aaaaa"}')),
}


@pytest.mark.parametrize("many", [False, True], ids=["single", "lists"])
@pytest.mark.parametrize("codec", ["json", ["json", "msgpack"]], ids=["one codec", "two"])
@pytest.mark.parametrize("how", WEIGHED_AS)
async def test_no_batch_costs_more_than_it_may(how, codec, many):
    """Whatever says what an item costs, and however it comes: a larger one is a 413."""
    cost, _, more = WEIGHED_AS[how]
    texts = Texts(cost=cost, padded=True, max_batch_cost=2 * more - 1, codec=codec, many=many)
    async with client_of(texts.service) as client:
        sent = [b'{"text":"aaaaa"}'] * 4
        if many:
            answers = [await client.post("/lengths", b"[" + b",".join(sent) + b"]")]
        else:
            answers = await asyncio.gather(*(client.post("/lengths", each) for each in sent))
        assert [answer.json for answer in answers] == ([[5] * 4] if many else [5] * 4)
        assert texts.batches == [[5]] * 4
        large = {"text": "a" * 40}
        answer = await client.post("/lengths", [large] if many else large)
        assert (answer.status, answer.error) == (413, "too_many_items")
        assert "expected a cost of at most max_batch_cost=" in answer.json["message"]
        with pytest.raises(JobTooLarge):
            await texts.service["/lengths"]([large] if many else large)


async def test_the_item_that_is_refused_is_named():
    """Of a list of texts the client is told which one costs too much, or has no cost."""
    texts = Texts(cost=lambda item: float(item.text), max_batch_cost=64, many=True)
    async with client_of(texts.service) as client:
        costly = await client.post("/lengths", b'[{"text":"1"},{"text":"65"}]')
        unknown = await client.post("/lengths", b'[{"text":"1"},{"text":"1"},{"text":"x"}]')
        with pytest.raises(CostError) as told:
            await texts.service["/lengths"]([{"text": "1"}, {"text": "x"}])
    assert (costly.status, costly.json["path"]) == (413, "$[1]")
    assert isinstance(told.value.__cause__, ValueError)
    assert (unknown.status, unknown.json["path"]) == (500, "$[2]")


async def test_each_codec_is_read_to_know_the_cost():
    """A body in the second codec costs as much as one in the first."""
    texts = Texts(cost=letters, max_batch_cost=3, codec=["json", "msgpack"])
    async with client_of(texts.service) as client:
        kind = {"Content-Type": "application/msgpack"}
        packed = [msgspec.msgpack.encode({"text": "a" * number}) for number in (3, 4)]
        answers = [await client.post("/lengths", each, headers=kind) for each in packed]
        assert [answer.status for answer in answers] == [200, 413]


@pytest.mark.parametrize("many", [False, True], ids=["single", "lists"])
async def test_a_function_that_fails_and_an_item_that_is_none(many):
    """The first is the program's fault, a 500, and the second the client's, a 422."""
    costs = {"a": 1, "negative": -1}
    texts = Texts(cost=lambda item: costs[item.text], many=many)

    def sent(text):
        return [{"text": text}] if many else {"text": text}

    async with client_of(texts.service) as client:
        for text in ("negative", "unknown"):
            answer = await client.post("/lengths", sent(text))
            assert (answer.status, answer.error) == (500, "bad_cost")
            with pytest.raises(CostError):
                await texts.service["/lengths"](sent(text))
        answer = await client.post("/lengths", sent(1))
        assert (answer.status, answer.error) == (422, "invalid_item")
        assert texts.batches == []
        assert (await client.post("/lengths", sent("a"))).status == 200
        counted = +Counter(client.stats("/lengths").requests)
        assert counted == {JobOutcome.FAILED: 4, JobOutcome.DONE: 2}  # 422 is an answer


async def test_the_log_says_what_a_client_is_told_that_it_says(caplog):
    """Of errors alike it says the first, under its id, and how many more as the service ends."""
    wrong = {"a": -1, "b": float("nan"), "c": "7"}
    texts = Texts(cost=lambda item: wrong[item.text])
    async with client_of(texts.service) as client:
        answers = [await client.post("/lengths", {"text": text}) for text in wrong]
    assert {answer.error for answer in answers} == {"bad_cost"}
    for answer in answers:
        assert "this request_id, or that of an earlier error like it" in answer.json["message"]
    logged = [line for line in caplog.messages if "bad_cost" in line]
    assert f"request {answers[0].json['request_id']}: " in logged[0]
    assert [line.partition(" within ")[0] for line in logged[1:]] == [
        "/lengths: bad_cost: CostError: 2 more like it"
    ]


async def test_the_log_says_where_a_function_raised(caplog):
    """With its line, as of a handler; one that returned no number has none to be told of."""
    costs = {"negative": -1}
    texts = Texts(cost=lambda item: costs[item.text])
    async with client_of(texts.service) as client:
        await client.post("/lengths", {"text": "unknown"})
        await client.post("/lengths", {"text": "negative"})
    logged = [record for record in caplog.records if getattr(record, "code", "") == "bad_cost"]
    assert ["KeyError: 'unknown'" in (record.exc_text or "") for record in logged] == [True, False]
    assert "costs[item.text]" in logged[0].exc_text


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_a_function_that_exits_is_answered(raised):
    """The client gets a 500 instead of a closed connection."""

    def exits(item):
        raise raised

    texts = Texts(cost=exits)
    async with client_of(texts.service) as client:
        answer = await client.post("/lengths", {"text": "a"})
        assert (answer.status, answer.error) == (500, "bad_cost")


async def test_an_item_of_a_list_that_is_none_has_its_place():
    """It is read to know its cost: the items before it wait no longer."""
    texts = Texts(cost=letters, many=True, policy="window:1h")
    async with client_of(texts.service) as client:
        answer = await client.post("/lengths", [{"text": "a"}, {"text": 1}])
        assert (answer.status, answer.json["path"]) == (422, "$[1].text")
        assert client.stats("/lengths").queued == 0


async def test_shared_workers_have_costs_too():
    """Each endpoint has its own, beside others that have none."""
    service = Service("shared")
    shared = SharedWorkers()
    batches = []

    @service.endpoint("/weighed", workers=shared, cost=letters, max_batch_cost=4)
    async def weighed(items: list[Text]) -> list[int]:
        batches.append(len(items))
        return [len(item.text) for item in items]

    @service.endpoint("/plain", workers=shared)
    async def plain(items: list[int]) -> list[int]:
        return items

    async with client_of(service) as client:
        calls = [client.post("/weighed", {"text": "abc"}) for _ in range(3)]
        answers = await asyncio.gather(*calls, client.post("/plain", 5))
        assert [answer.json for answer in answers] == [3, 3, 3, 5]
        assert (await client.post("/weighed", {"text": "abcde"})).status == 413
    assert batches == [1, 1, 1]


async def test_stages_behind_http_weigh_their_own_items():
    """The first one's function gets the item that its body holds."""
    batches = []

    async def lengths(items: list[Text]) -> list[int]:
        batches.append([item.text for item in items])
        return [len(item.text) for item in items]

    async def double(items: list[int]) -> list[int]:
        return [2 * item for item in items]

    stages = [
        Stage(lengths, 8, cost=letters, max_batch_cost=3, examples=[Text("a"), Text("abc")]),
        Stage(double, 8, cost=float, max_batch_cost=100),
    ]
    service = Service("staged")
    service.add_pipeline("/double", Pipeline(stages), item=Text)
    async with client_of(service) as client:
        assert max(sum(map(len, batch)) for batch in batches) == 3  # the examples
        answers = await asyncio.gather(*(client.post("/double", {"text": "ab"}) for _ in range(3)))
        assert [answer.json for answer in answers] == [4, 4, 4]
        assert (await client.post("/double", {"text": "abcd"})).status == 413
        assert (await client.post("/double", {"text": 5})).status == 422
    assert max(sum(map(len, batch)) for batch in batches) == 3


async def test_examples_run_with_short_and_with_long_bodies():
    """What a byte takes is known before the first request."""
    texts = Texts(cost="bytes", max_batch_size=2, examples=[Text("a"), Text("abc")])
    async with client_of(texts.service):
        assert texts.batches == 3 * [[1], [3], [1, 1], [3, 3]]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"padded": True}, ValueError, "padded: expected cost="),
        ({"max_batch_cost": 5}, ValueError, "max_batch_cost: expected cost="),
        ({"cost": "tokens"}, ValueError, "cost: expected a function of one item, or 'bytes', got"),
        ({"cost": 5}, TypeError, "cost: expected a function that is not async"),
        ({"cost": len, "max_batch_cost": -1}, ValueError, "max_batch_cost: expected a positive"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(options, error, said):
    """Before any worker starts."""
    with pytest.raises(error, match=said):
        Texts(**options)
