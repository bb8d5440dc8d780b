"""The generators against a real server: nothing sent is lost count of."""

import shutil
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


@pytest.fixture(params=["own", "wrk"])
def tool(request, monkeypatch):
    """With wrk and without it."""
    if request.param == "own":
        monkeypatch.setenv("PATH", "")
    elif shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    return request.param


async def closed(path, tool, **about):
    body = b'{"percent": "100%", "new line": "\\n"}'
    async with tiny_server() as tiny:
        load = ClosedLoop(url=tiny.url + path, body=body, connections=8, duration=0.3, **about)
        result = await run_closed_loop(load)
        assert result.tool == tool
        assert isinstance(result, Throughput)
        return result, tiny


async def test_a_closed_loop_keeps_its_connections_busy(tool):
    result, tiny = await closed("/echo", tool)
    assert result.failed == 0
    assert result.requests == pytest.approx(tiny.seen["/echo"], abs=8)
    assert result.rate > 0
    assert 0 < result.p50 <= result.p99 < result.duration
    assert tiny.most <= 8


@pytest.mark.parametrize("named", [False, True])
async def test_every_request_has_a_name_of_its_own_or_none(tool, named):
    result, tiny = await closed("/echo", tool, named=named)
    assert result.failed == 0
    assert (None in tiny.names) != named
    assert len(tiny.names) == (tiny.seen["/echo"] if named else 1)


@pytest.mark.parametrize("path", ["/fail", "/refuse"])
async def test_failures_are_no_throughput(path, tool):
    result, _ = await closed(path, tool)
    assert result.failed == result.requests > 0
    assert result.rate == 0


async def test_a_server_that_hangs_up(tool):
    result, tiny = await closed("/drop", tool)
    assert (result.requests, result.rate) == (0, 0)
    assert result.failed > 0
    assert tiny.seen["/drop"] > 8
