"""Workers that we did not start: who is let in, what they get, and how they are got rid of."""

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching import Pipeline, Service, Stage, batched
from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import (
    DeadlineExceeded,
    HandlerError,
    RemoteError,
    WorkerLost,
    WorkerTimeout,
)
from adaptive_batching.workers.elsewhere import ExternalWorkers, Processes, RayWorkers
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.results import CallRaised
from adaptive_batching.workers.interface import Health
from adaptive_batching.workers.place import place
from adaptive_batching.workers.placement import Threads
from tests.marshal.client import client_of, until
from tests.workers.external.guest import HELLO, Guest
from tests.workers.external.scene import Scene, asked
from tests.workers.handlers import Obeys

NONE: frozenset[int] = frozenset()


# ------------------------------------------------------------------------------------ batches


async def test_a_worker_comes_and_answers(scene):
    """It says hello, asks, and gets batch after batch; its results come in any order."""
    workers = await scene.listen()
    assert workers.health == Health(NONE, None)
    guest = await scene.guest()
    batch = asked(workers, [b"raw", {"x": [1, 2.5, None]}])
    (one, raw), (two, rest) = await guest.batch()
    assert (raw, rest) == (b"raw", {"x": [1, 2.5, None]})
    guest.answer([(two, "second"), (one, b"first")])
    assert await batch == [b"first", "second"]
    again = asked(workers, [3])
    await guest.serve(lambda item: item + 1)
    assert await again == [4]


async def test_errors_of_single_items_and_of_a_whole_batch(scene):
    """Both are told in the worker's words, and it goes on."""
    workers = await scene.listen()
    guest = await scene.guest()
    batch = asked(workers, [1, 2])
    (one, _), (two, _) = await guest.batch()
    guest.answer([(one, 10)], [(two, "too odd")])
    fine, odd = await batch
    assert fine == 10
    assert isinstance(odd, RemoteError)
    failed = asked(workers, [1, object()])
    await guest.batch()
    guest.say({"type": "failure", "error": "CUDA out of memory"})
    raised, unfit = await failed
    assert (type(raised), str(raised)) == (CallRaised, "CUDA out of memory")
    assert isinstance(unfit, HandlerError)
    assert workers.health.alive == 1


async def test_items_that_can_not_be_sent(scene):
    """Each is an error in its own place, and the others get their results."""
    workers = await scene.listen()
    guest = await scene.guest()
    batch = asked(workers, [1, object(), 3])
    await guest.serve(lambda item: -item)
    first, nothing, last = await batch
    assert (first, last) == (-1, -3)
    assert isinstance(nothing, HandlerError)
    (alone,) = await workers.run([object()], 0)
    assert "no form for this object" in str(alone)


async def test_a_worker_may_want_fewer_items_at_a_time(scene):
    """A batch comes to it in parts, and leaves as one; what one part raises is not the next's."""
    workers = await scene.listen()
    guest = await scene.guest(max_batch_size=2)
    batch = asked(workers, [1, 2, 3, 4, 5])
    await guest.serve(lambda item: 10 * item, batches=3)
    assert await batch == [10, 20, 30, 40, 50]
    batch = asked(workers, [1, 2, 3])
    await guest.batch()
    guest.say({"type": "failure", "error": "not these"})
    await guest.serve(lambda item: 10 * item)
    one, other, last = await batch
    assert (type(one), type(other), last) == (CallRaised, CallRaised, 30)


async def test_a_batch_longer_than_a_frame_is_sent_in_parts(scene):
    """An item that is too long by itself is its caller's own error."""
    workers = await scene.listen(max_frame=1000)
    guest = await scene.guest()
    batch = asked(workers, [bytes(400), bytes(300), bytes(2000), bytes(900)])
    await guest.serve(len, batches=2)
    first, second, too_long, last = await batch
    assert (first, second, last) == (400, 300, 900)
    assert isinstance(too_long, HandlerError)
    assert "max_frame=1000 bytes, got 20" in str(too_long)


# -------------------------------------------------------------------------------- coming and going


async def test_workers_come_and_go(scene):
    """Their places are taken again, and a name finds its old one while it is free."""
    workers = await scene.listen()
    first = await scene.guest(name="first")
    second = await scene.guest(name="second")
    assert workers.health.identities == {0: "first", 1: "second"}
    first.close()
    second.close()
    await scene.changes.until(lambda: workers.health == Health(NONE, None))
    await scene.guest(name="second")
    assert workers.health.identities == {1: "second"}
    await scene.guest()
    assert workers.health.living == {0, 1}
    assert workers.health.identities[0] != "first"


async def test_a_dead_connection_fails_its_batch(scene):
    """And nobody else's."""
    workers = await scene.listen()
    mortal, other = await scene.guest(name="mortal"), await scene.guest()
    lost, kept = asked(workers, [1, 2], 0), asked(workers, [3], 1)
    await mortal.batch()
    mortal.close()
    held = r"external worker 'mortal' \(pid \d+\) closed its connection while it held a batch of 2"
    with pytest.raises(WorkerLost, match=held):
        await lost
    with pytest.raises(WorkerLost, match="had gone before"):
        await workers.run([1], 0)
    await other.serve(str)
    assert await kept == ["3"]


async def test_a_farewell_is_waited_for(scene):
    """Who says bye gets no more batches, and answers the one that it holds."""
    workers = await scene.listen()
    idle, busy = await scene.guest(), await scene.guest()
    batch = asked(workers, [1], 1)
    jobs = await busy.batch()
    for guest in (idle, busy):
        guest.say({"type": "bye"})
    assert await idle.hear() is None
    await scene.changes.until(lambda: workers.health.living == {1})
    busy.answer(jobs)
    assert await batch == [1]
    assert workers.health.alive == 0
    assert await busy.hear() is None


async def test_a_farewell_that_crosses_a_batch(scene):
    """It was decided who gets the batch, and it has not been sent yet: it is not lost."""
    workers = make_workers(elsewhere, ExternalWorkers(str(scene.path)))
    async with Dispatcher(workers, Limits(), policy="greedy") as dispatcher:
        guest = await Guest.idle(scene.path)
        await until(lambda: dispatcher.stats().workers)
        call = asyncio.create_task(dispatcher.submit(1))
        # In the loop's next turn but one the batch leaves, and then the farewell is read.
        asyncio.get_running_loop().call_soon(guest.say, {"type": "bye"})
        await guest.serve(str)
        assert await call == "1"
        assert await guest.hear() is None
        assert dispatcher.stats().workers == 0
        guest.close()


async def test_a_silent_worker_is_hung_up_on_at_the_batch_timeout(scene):
    """Half an answer is none."""
    workers = await scene.listen(batch_timeout=0.1)
    guest = await scene.guest()
    batch = asked(workers, [1])
    await guest.batch()
    guest.raw(b"\0\0\0\x09half")
    with pytest.raises(WorkerTimeout, match="did not answer a batch of 1 in 100 ms; it was hung"):
        await batch
    assert workers.health.alive == 0
    assert await guest.refused() == "did not answer a batch of 1 in 100 ms"


async def test_a_cancelled_batch_costs_its_worker(scene):
    """Its late answer can't be taken for that of the next batch."""
    workers = await scene.listen()
    guest = await scene.guest()
    batch = asked(workers, [1])
    await guest.batch()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert workers.health.alive == 0
    assert await guest.refused() == "held a batch that was cancelled"


async def test_closing_leaves_nothing(scene):
    """No socket, no connection; a batch that ran is lost. It can be started again."""
    workers = await scene.listen()
    guest = await scene.guest()
    batch = asked(workers, [1])
    await guest.batch()
    await workers.aclose()
    with pytest.raises(WorkerLost):
        await batch
    assert await guest.hear() is None
    assert not scene.path.exists()
    await workers.aclose()
    await workers.start(scene.changes)
    again = await scene.guest()
    batch = asked(workers, [1])
    await again.serve(str)
    assert await batch == ["1"]


# ------------------------------------------------------------------------------------ misbehaviour


def frame_of(length):
    return length.to_bytes(4, "big")


STRANGERS = [
    ("no protocol", b"GET / HTTP/1.1\r\n\r\n", "expected a frame of at most 4096 bytes"),
    ("garbage", frame_of(3) + b"\xc1\xc1\xc1", "malformed"),
    ("no hello", frame_of(0), "expected a hello first, got a message idle"),
    ("a huge hello", frame_of(2**31), "expected a frame of at most 4096 bytes, got 2147483648"),
]


@pytest.mark.parametrize(("sent", "reason"), [each[1:] for each in STRANGERS],
                         ids=[each[0] for each in STRANGERS])  # fmt: skip
async def test_strangers_are_hung_up_on(scene, caplog, sent, reason):
    """They are told why, and the log as well; the worker that works is not disturbed."""
    workers = await scene.listen()
    guest = await scene.guest()
    stranger = await scene.connect()
    stranger.raw(sent)
    assert reason in await stranger.refused()
    assert reason in caplog.messages[-1]
    assert "was hung up on" in caplog.messages[-1]
    batch = asked(workers, [1])
    await guest.serve(str)
    assert await batch == ["1"]


async def test_another_version_is_told_ours(scene):
    """Who wrote the worker has to know."""
    await scene.listen()
    guest = await scene.connect()
    guest.say(HELLO | {"protocol": 2})
    assert "expected protocol 1, got 2" in await guest.refused()


@pytest.mark.parametrize("said", [b"", b"\0\0", b"\0\0\0\x09half"], ids=["nothing", "half", "more"])
async def test_who_dawdles_is_hung_up_on(scene, said):
    """A connection costs something, so it has to become a worker soon."""
    await scene.listen(hello_timeout=0.05)
    guest = await scene.connect()
    guest.raw(said)
    assert await guest.refused() == "sent no hello and empty frame within 50 ms"


LIES = {
    "too few": [],
    "too many": [(0, "a"), (1, "b"), (2, "c")],
    "twice": [(0, "a"), (0, "b")],
    "made up": [(0, "a"), (7, "b")],
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_lies_fail_the_batch_and_cost_the_connection(scene, caplog, lie):
    """A result that might be another's is nobody's."""
    workers = await scene.listen()
    guest = await scene.guest()
    batch = asked(workers, [1, 2])
    await guest.batch()
    guest.answer(lie)
    with pytest.raises(WorkerLost, match="broke the protocol: expected an answer to"):
        await batch
    assert workers.health.alive == 0
    assert "broke the protocol" in caplog.text


async def test_results_that_nobody_waits_for(scene):
    """Twice, or before any batch: the connection can't be believed any more."""
    workers = await scene.listen()
    early, double = await scene.guest(), await scene.guest()
    early.answer([(0, 1)])
    assert "got a message results that is not waited for" in await early.refused()
    batch = asked(workers, [1], 1)
    jobs = await double.batch()
    double.answer(jobs)
    double.answer(jobs)
    assert await batch == [1]
    assert "is not waited for" in await double.refused()


async def test_results_beyond_the_cap_are_refused_at_their_header(scene):
    """No room is made for them."""
    workers = await scene.listen(max_frame=1000)
    guest = await scene.guest()
    batch = asked(workers, [1])
    await guest.batch()
    guest.raw(frame_of(2**30))
    with pytest.raises(WorkerLost, match="at most 1000 bytes, got 1073741824"):
        await batch


async def test_who_comes_all_the_time_does_not_fill_the_log(scene, caplog):
    """The beginning is told, the rest is counted."""
    workers = await scene.listen()
    for _ in range(50):
        guest = await scene.connect()
        guest.frame(b"")
        await guest.refused()
    await workers.aclose()
    assert len(caplog.messages) == 21
    assert "workers came and went 30 more times" in caplog.messages[-1]


async def test_empty_frames_do_no_harm(scene):
    """Idle is idle, also if it is said twice or crosses a batch."""
    workers = await scene.listen()
    guest = await scene.guest()
    guest.frame(b"")
    batch = asked(workers, [1])
    jobs = await guest.batch()
    guest.frame(b"")
    guest.answer(jobs)
    assert await batch == [1]
    assert workers.health.alive == 1


async def test_one_too_many(scene):
    """There is an end to how many are let in; a place that is given up is free again."""
    await scene.listen(max_workers=1)
    guest = await scene.guest()
    surplus = await scene.connect()
    assert await surplus.refused() == "is one too many: 1 may be connected"
    guest.close()
    await scene.changes.until(lambda: scene.workers.health.alive == 0)
    await scene.guest()


class Unreliable:
    """What one worker does with its batches, one after the other, until it is hung up on."""

    def __init__(self, path, deeds):
        self._path = path
        self._deeds = deeds

    async def live(self):
        await self.serve(await Guest.idle(self._path))

    async def serve(self, guest):
        try:
            for deed in self._deeds:
                message = await guest.hear()
                if message is None or message["type"] == "refused":
                    return
                await getattr(self, deed)(guest, message["jobs"])
        except ConnectionError:
            pass  # it was hung up on while it spoke
        finally:
            guest.close()

    async def answer(self, guest, jobs):
        guest.answer((job, 2 * item) for job, item in reversed(jobs))

    async def refuse_one(self, guest, jobs):
        guest.answer([(job, 2 * item) for job, item in jobs[1:]], [(jobs[0][0], "no")])

    async def fail(self, guest, jobs):
        guest.say({"type": "failure", "error": "no"})

    async def lie(self, guest, jobs):
        guest.answer((job + 1, 2 * item) for job, item in jobs)

    async def answer_twice(self, guest, jobs):
        await self.answer(guest, jobs)
        await self.answer(guest, jobs)

    async def stop_halfway(self, guest, jobs):
        guest.raw(b"\0\0\0\x09half")
        guest.close()

    async def say_bye(self, guest, jobs):
        guest.say({"type": "bye"})
        await self.answer(guest, jobs)


DEEDS = [
    name for name in vars(Unreliable) if not name.startswith("_") and name not in {"live", "serve"}
]


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(DEEDS), min_size=1, max_size=4), max_size=4))
def test_every_call_has_one_outcome_and_every_answer_is_right(tmp_path_factory, lives):
    """Whatever some workers do, an answer is the caller's own; the others hear what happened."""

    async def story():
        path = tmp_path_factory.mktemp("s") / "s"
        workers = make_workers(elsewhere, ExternalWorkers(str(path)))
        limits = Limits(max_batch_size=4)
        async with Dispatcher(workers, limits, policy="greedy") as dispatcher:
            guests = [Unreliable(path, deeds) for deeds in [*lives, ["answer"] * 100]]
            living = [asyncio.create_task(guest.live()) for guest in guests]
            calls = (dispatcher.submit(number) for number in range(60))
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            stats = dispatcher.stats()
        await asyncio.gather(*living)
        for number, outcome in enumerate(outcomes):
            assert outcome == 2 * number or isinstance(outcome, WorkerLost | RemoteError)
        done = sum(not isinstance(outcome, Exception) for outcome in outcomes)
        assert stats.requests[JobOutcome.DONE] == done
        assert stats.requests[JobOutcome.FAILED] == 60 - done

    quietly(story())


def quietly(story):
    """Run a story without its many lines in the log."""
    log = logging.getLogger("adaptive_batching.workers")
    log.setLevel(logging.CRITICAL)
    try:
        asyncio.run(story)
    finally:
        log.setLevel(logging.NOTSET)


PIECES = [frame_of(0), frame_of(2), frame_of(20), b"\x81\xa4type\xa3bye", b"\xc1\xc1"]


@settings(max_examples=30)
@given(
    st.lists(st.binary(max_size=30) | st.sampled_from([b"\0\0\0\0", frame_of(2), b"\x81\xa4type"]))
)
def test_no_bytes_harm_the_others(tmp_path_factory, chunks):
    """After whatever a stranger or a worker sends, the others are served."""

    async def story():
        async with AsyncExitStack() as stack:
            scene = Scene(tmp_path_factory.mktemp("s") / "s", stack)
            workers = await scene.listen()
            guest, wild, stranger = await scene.guest(), await scene.guest(), await scene.connect()
            held = asked(workers, [1], 1)
            await wild.batch()
            for chunk in chunks:
                wild.raw(chunk)
                stranger.raw(chunk)
                await asyncio.sleep(0)
            batch = asked(workers, [2])
            await guest.serve(str)
            assert await batch == ["2"]
            wild.close()
            with pytest.raises(WorkerLost):
                await held

    quietly(story())


# ------------------------------------------------------------------------- as part of the whole


def elsewhere(items):
    raise NotImplementedError


def test_a_socket_is_named_where_workers_are(tmp_path):
    """A text is one; other texts are mistakes."""
    assert place(elsewhere, "unix:/run/model.sock") == ExternalWorkers("/run/model.sock")
    assert place(elsewhere, "threads:3") == Threads(3)
    assert place(Obeys, "processes:2") == Processes(2)
    assert place(Obeys, "ray:4") == RayWorkers(4)
    assert place(Obeys, ExternalWorkers("/x", max_workers=2)) == ExternalWorkers(
        "/x", max_workers=2
    )
    with pytest.raises(ValueError, match=r"ray:2 or unix:/run/model.sock, got '2'"):
        place(elsewhere, "2")
    with pytest.raises(ValueError, match="only worker processes are pinned"):
        place(elsewhere, "unix:/x", cpus=[0])
    with pytest.raises(ValueError, match="max_workers: expected a count of at least 1, got 0"):
        ExternalWorkers("/x", max_workers=0)
    with pytest.raises(TypeError, match=r"uids: expected numbers of users, .* got .'root'"):
        ExternalWorkers("/x", uids=["root"])
    assert isinstance(place(Obeys, 2), Processes)


async def test_calls_wait_for_a_worker(tmp_path):
    """None is connected: who has time waits for one, the others are told when their time is up."""
    path = tmp_path / "s"
    predict = batched(workers=f"unix:{path}", max_batch_size=4, max_latency=30.0)(elsewhere)
    async with predict:
        patient = [asyncio.create_task(predict(number)) for number in range(6)]
        with pytest.raises(DeadlineExceeded, match="no worker was free"):
            await predict(9, max_latency=0.05)
        guest = await Guest.idle(path)
        await guest.serve(lambda item: item * item, batches=2)
        assert await asyncio.gather(*patient) == [0, 1, 4, 9, 16, 25]
        guest.close()
    assert not path.exists()


async def test_a_batch_costs_no_more_than_it_may(tmp_path):
    """The frame of a batch holds what its items may cost together, whoever runs it."""
    path = tmp_path / "s"
    predict = batched(workers=f"unix:{path}", cost=float, max_batch_cost=10)(elsewhere)
    async with predict:
        calls = [asyncio.create_task(predict(number)) for number in (6, 3, 6, 3)]
        guest = await Guest.idle(path)
        costs = []
        while sum(costs) < 18:
            batch = await guest.hear()
            costs.append(sum(item for _, item in batch["jobs"]))
            guest.say({"type": "results", "results": batch["jobs"]})
        assert await asyncio.gather(*calls) == [6, 3, 6, 3]
        guest.close()
    assert max(costs) <= 10


async def test_an_idempotent_batch_runs_again_elsewhere(tmp_path):
    """Its worker goes; its callers notice nothing, and the idle worker gets what was lost."""
    path = tmp_path / "s"
    predict = batched(workers=f"unix:{path}", max_batch_size=4, idempotent=True)(elsewhere)
    async with predict:
        calls = [asyncio.create_task(predict(number)) for number in range(4)]
        mortal = await Guest.idle(path)
        await mortal.batch()
        honest = await Guest.idle(path)
        serving = asyncio.create_task(Unreliable(path, ["answer"] * 8).serve(honest))
        mortal.close()
        assert await asyncio.gather(*calls) == [0, 2, 4, 6]
    await serving


async def test_the_idlest_goes_first_and_a_stranger_begins_afresh(scene):
    """Of two workers the one that waits longer is asked; a new one inherits nobody's speed."""
    workers = make_workers(elsewhere, ExternalWorkers(str(scene.path)))
    dispatcher = Dispatcher(workers, Limits(max_batch_size=1), policy="greedy")
    await dispatcher.start()
    guests = [await Guest.idle(scene.path, name=name) for name in ("a", "b")]
    served = []

    async def serve(name, guest):
        while True:
            message = await guest.hear()
            if message is None:
                return
            served.append(name)
            guest.answer((job, name) for job, _ in message["jobs"])

    tasks = [asyncio.create_task(serve(n, g)) for n, g in zip("ab", guests, strict=True)]
    await until(lambda: dispatcher.stats().workers == 2)
    for _ in range(8):
        await dispatcher.submit(1)
    assert served in (["a", "b"] * 4, ["b", "a"] * 4)
    assert [each.batches for each in dispatcher.stats().per_worker] == [4, 4]
    guests[0].close()
    await until(lambda: dispatcher.stats().workers == 1)
    guests.append(await Guest.idle(scene.path, name="c"))
    await until(lambda: dispatcher.stats().workers == 2)
    assert sorted(each.batches for each in dispatcher.stats().per_worker) == [0, 4]
    await dispatcher.aclose()
    await asyncio.gather(*tasks)
    for guest in guests:
        guest.close()


async def test_a_service_whose_workers_come_later(tmp_path):
    """It is not ready before; JSON comes to them as values, and their results leave as JSON."""
    path = tmp_path / "s"
    service = Service()
    service.endpoint("/", workers=f"unix:{path}")(elsewhere)
    async with client_of(service) as client:
        assert (await client.get("/readyz")).status == 503
        guest = await Guest.idle(path)
        await until(lambda: client.stats("/").workers)
        assert (await client.get("/readyz")).status == 200
        assert (
            b'adaptive_batching_workers{endpoint="/",state="missing"} 0'
            in (await client.get("/metrics")).body
        )
        answer = asyncio.create_task(client.post("/", {"x": [1, 2]}))
        await guest.serve(lambda item: {"sum": sum(item["x"])})
        assert (await answer).json == {"sum": 3}
        malformed = await client.post("/", b"{")
        assert malformed.status == 400
        lost = asyncio.create_task(client.post("/", 1))
        await guest.batch()
        guest.close()
        assert (await lost).error == "worker_lost"


async def test_a_stage_of_a_pipeline(tmp_path):
    """Also one that takes single items: they come to the worker in lists of one."""
    path = tmp_path / "s"
    async with Pipeline([Stage(elsewhere, workers=f"unix:{path}")]) as alone:
        guest = await Guest.idle(path)
        answer = asyncio.create_task(alone(3))
        await guest.serve(lambda item: 2 * item)
        assert await answer == 6
        guest.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_end_of_the_loop_closes_everything(tmp_path, loop):
    """A program that closes nothing leaves no socket and no warning."""
    path = tmp_path / "s"
    predict = batched(workers=f"unix:{path}")(elsewhere)

    async def program():
        await predict.start()
        guest = await Guest.idle(path)
        answer = asyncio.create_task(predict(1))
        await guest.serve(str)
        assert await answer == "1"
        guest.close()

    for _ in range(2):
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(program())
        assert not path.exists()
