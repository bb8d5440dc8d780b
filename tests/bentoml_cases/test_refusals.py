"""Who is refused though he could be answered: B1, B2, B4; `bentoml` shows that it isn't easy."""

import asyncio

import pytest

from adaptive_batching.errors import Overloaded
from tests.bentoml_cases.stage import Client, End, Model, tell


def burst_after_single_requests(policy: str) -> list[list[End]]:
    """70 one after another, then twice 100 at once, with a second for each."""
    bursts: list[list[End]] = []

    async def story(client: Client) -> None:
        for item in range(70):
            await client.call(item)
        bursts.extend([await client.burst(100), await client.burst(100)])

    tell(story, Model(0.099, 0.001), max_batch_size=100, max_latency=1.0, policy=policy)
    return bursts


def test_b1_a_burst_after_single_requests() -> None:
    """B1: nobody is refused."""
    for burst in burst_after_single_requests("cork"):
        assert all(end.answered for end in burst)


def test_b1_bentoml_refuses_82_of_100() -> None:
    """B1: from one batch size it learned 5 s for 100 items; it refuses at once, on an idle server.

    It refuses as many of the second burst, though by then it has seen one that took 0.117 s.
    """
    for burst in burst_after_single_requests("bentoml"):
        refused = [end for end in burst if isinstance(end.error, Overloaded)]
        assert len(refused) in {81, 82}  # the 19th is predicted to take 1 s, give or take a bit
        assert all(end.took == 0.0 for end in refused)
        assert sum(end.answered for end in burst) == 100 - len(refused)


@pytest.mark.parametrize("policy", ["cork", "bentoml"])
@pytest.mark.parametrize("max_latency", [1.0, 5.0])
def test_b2_a_burst_at_the_start(max_latency: float, policy: str) -> None:
    """B2: 100 requests on a cold server: nobody is refused, and nothing but full batches leaves.

    BentoML 0.13 refused 99 of them; since it trains, its batches are 32, 32, 32 and 4, too.
    """

    async def story(client: Client) -> None:
        assert all(end.answered for end in await client.burst(100))

    model = Model(0.05, 0.002)  # 0.114 s for 32
    tell(story, model, max_batch_size=32, max_latency=max_latency, policy=policy)
    assert [len(batch) for batch in model.batches] == [32, 32, 32, 4]


def slow_down_to_two_thirds_of_the_promise(policy: str) -> tuple[float, float]:
    """10 s of overload, then a model that takes 0.13 s of the 0.2 s that there are.

    Returns:
        Answers a second and the share of the time that the worker was busy, from 10 to 24 s later.
    """
    model = Model(0.02, 0.002)
    result = []

    async def story(client: Client) -> None:
        await client.stream(600.0, 10.0)
        model.fixed = 0.13
        ends = asyncio.ensure_future(client.stream(60.0, 24.0))
        await asyncio.sleep(10.0)
        begun, busy = asyncio.get_running_loop().time(), model.busy
        late = [end for end in await ends if end.called >= begun]
        result.append(sum(end.answered for end in late) / 14.0)
        result.append((model.busy - busy) / 14.0)

    tell(story, model, max_batch_size=16, max_latency=0.2, policy=policy)
    answers, busy = result
    return answers, busy


def test_b4_a_model_that_slows_down() -> None:
    """B4: one worker could answer 27 of the 60 requests a second in time, and does."""
    answers, _ = slow_down_to_two_thirds_of_the_promise("cork")
    assert answers >= 0.8 * 27.0


def test_b4_bentoml_refuses_everything_for_ever() -> None:
    """B4: less than one success in 3 s, and the worker idles.

    Its fit says that no batch of two can be in time, so it cuts every queue to one, corks that one,
    and without batches never learns better.
    """
    answers, busy = slow_down_to_two_thirds_of_the_promise("bentoml")
    assert answers < 1 / 3
    assert busy < 0.1
