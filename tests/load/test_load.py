"""The generators against a real server: nothing sent is lost count of."""

import re
from itertools import pairwise

import pytest

from adaptive_batching.load import (
    ClosedLoop,
    End,
    OpenLoop,
    Throughput,
    run_closed_loop,
    run_open_loop,
)
from adaptive_batching.load.open_loop import instants
from adaptive_batching.load.processes import LoadError
from tests.load.servers import tiny_server


def plan(url, **changes):
    return OpenLoop(**{"url": url, "bodies": [b'"a"', b'"b"'], "phases": [(400, 0.5)], **changes})


async def ends(path, **changes):
    """How the requests of a plan end at a path of the tiny server."""
    async with tiny_server() as tiny:
        answers = await run_open_loop(plan(tiny.url + path, **changes))
    assert len(answers) == len(list(instants(plan("", **changes))))
    return {answer.end for answer in answers}, answers


def test_poisson():
    """About as many as the rate says, in order, in the phase they belong to."""
    times = list(instants(plan("", phases=[(2000, 5), (100, 5)])))
    assert times == sorted(times)
    assert sum(time < 5 for time in times) == pytest.approx(10_000, rel=0.05)
    assert sum(time >= 5 for time in times) == pytest.approx(500, rel=0.2)
    assert times[-1] < 10


def test_the_same_seed_draws_the_same_instants():
    assert list(instants(plan("", seed=1))) == list(instants(plan("", seed=1)))
    assert list(instants(plan("", seed=1))) != list(instants(plan("", seed=2)))


def test_instants_that_are_named_are_kept():
    """A recording is sent as it is; phases and seed have no say."""
    assert list(instants(plan("", instants=[0.1, 0.1, 0.3], seed=2))) == [0.1, 0.1, 0.3]


async def test_bodies_are_sent_by_turns_and_every_answer_comes_home():
    async with tiny_server() as tiny:
        answers = await run_open_loop(plan(f"{tiny.url}/echo"))
        assert tiny.seen["/echo"] == len(answers)
    assert [answer.scheduled for answer in answers] == list(instants(plan("")))
    assert [answer.item for answer in answers] == [number % 2 for number in range(len(answers))]
    assert all(answer.body == (b'"a"', b'"b"')[answer.item] for answer in answers)
    assert {answer.status for answer in answers} == {200}
    assert all(0 <= answer.lag <= answer.latency for answer in answers)


@pytest.mark.parametrize(
    ("path", "end", "status"),
    [("/refuse", End.REFUSED, 503), ("/fail", End.ERROR, 500), ("/drop", End.ERROR, 0)],
)
async def test_what_is_not_answered_is_counted_as_what_it_is(path, end, status):
    found, answers = await ends(path)
    assert found == {end}
    assert {answer.status for answer in answers} == {status}


async def test_what_was_refused_is_sent_again():
    """As often as the plan says and a while later each time; what was answered is not."""
    phases = [(50, 0.2)]
    first = len(list(instants(plan("", phases=phases))))
    async with tiny_server() as tiny:
        refused = await run_open_loop(
            plan(f"{tiny.url}/refuse", phases=phases, retries=2, backoff=0.01)
        )
        answered = await run_open_loop(plan(f"{tiny.url}/echo", phases=phases, retries=2))
    assert [each.sent_before for each in refused] == [0, 1, 2] * first
    assert [each.sent_before for each in answered] == [0] * first
    for once, again in pairwise(refused):
        if again.sent_before:
            waited = again.scheduled - once.scheduled - once.latency
            assert waited >= 0.005 * 2 ** (again.sent_before - 1)


async def test_connections_that_the_server_closes_are_not_used_again():
    found, _ = await ends("/once")
    assert found == {End.ANSWERED}


async def test_nobody_listens():
    answers = await run_open_loop(plan("http://127.0.0.1:1/", phases=[(100, 0.2)]))
    assert {answer.end for answer in answers} == {End.ERROR}
    assert b"refused" in answers[0].body or b"Connect" in answers[0].body


async def test_no_more_connections_than_allowed_and_waiting_for_one_counts():
    """200 requests of 50 ms over 8 connections take more than a second."""
    async with tiny_server() as tiny:
        answers = await run_open_loop(plan(f"{tiny.url}/slow", phases=[(2000, 0.1)], connections=8))
        assert tiny.most == 8
    assert max(answer.latency for answer in answers) > len(answers) / 8 * 0.05 - 0.2


async def test_patience_ends():
    found, answers = await ends("/slow", phases=[(100, 0.2)], patience=0.01)
    assert found == {End.ERROR}
    assert b"TimeoutError" in answers[0].body


async def test_what_a_generator_complains_of():
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        await run_open_loop(plan("", bodies=[]))


async def closed(path, **about):
    bodies = [b'{"percent": "100%", "new line": "\\n"}', b'"another"']
    async with tiny_server() as tiny:
        plan = ClosedLoop(
            url=tiny.url + path,
            **{"bodies": bodies, "answers": bodies, "connections": 8, "duration": 0.3, **about},
        )
        result = await run_closed_loop(plan)
        assert isinstance(result, Throughput)
        return result, tiny


async def test_a_closed_loop_keeps_its_connections_busy():
    result, tiny = await closed("/echo", duration=1.0)
    assert result.failed == 0
    assert result.requests == tiny.seen["/echo"] > 8
    assert result.rate > 0
    assert 0 < result.p50 <= result.p99 < result.duration
    assert 0 < result.busy <= 1.1
    assert tiny.most <= 8


@pytest.mark.parametrize("repeated", [False, True])
async def test_every_request_has_names_of_its_own_unless_heads_repeat(repeated):
    """A request id and a trace, of the form that W3C's Trace Context asks for."""
    result, tiny = await closed("/echo", repeated=repeated)
    assert result.failed == 0
    assert len(tiny.names) == (1 if repeated else tiny.seen["/echo"])
    assert all(
        re.fullmatch("[0-9a-f]{32}", name)
        and re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", trace)
        for name, trace in tiny.names
    )


async def test_requests_of_an_open_loop_have_names_of_their_own():
    async with tiny_server() as tiny:
        answers = await run_open_loop(plan(f"{tiny.url}/echo"))
    assert len(tiny.names) == len(answers)


async def test_an_answer_to_another_request_has_failed():
    result, _ = await closed("/echo", answers=[b"100%", b"100%"])
    assert 0 < result.failed < result.requests
    assert result.failed == pytest.approx(result.requests / 2, abs=1)


async def test_a_body_that_no_socket_takes_at_once():
    """Tensors are larger than what the kernel buffers."""
    bodies = [bytes([number]) * 2**22 for number in (1, 2)]
    result, _ = await closed("/echo", bodies=bodies, answers=bodies, connections=2, duration=0.5)
    assert (result.failed, result.requests >= 2) == (0, True)


@pytest.mark.parametrize("path", ["/fail", "/refuse"])
async def test_failures_are_no_throughput(path):
    result, _ = await closed(path)
    assert result.failed == result.requests > 0
    assert result.rate == 0


async def test_a_closed_loop_opens_another_connection_for_each_that_the_server_closes():
    result, tiny = await closed("/once", duration=1.0)
    assert result.failed == 0
    assert result.requests == tiny.seen["/once"] > 8


async def test_a_server_that_hangs_up():
    result, tiny = await closed("/drop", duration=1.0)
    assert (result.requests, result.rate) == (0, 0)
    assert result.failed > 0
    assert tiny.seen["/drop"] > 8


async def test_no_server_for_a_closed_loop():
    plan = ClosedLoop(url="http://127.0.0.1:1/", bodies=[b"1"], duration=0.1)
    result = await run_closed_loop(plan)
    assert result.requests == 0 < result.failed
