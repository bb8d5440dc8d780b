"""Batching pays, at any load: A1, A4, A8, B9."""

import asyncio

import pytest

from adaptive_batching.errors import DeadlineExceeded, Overloaded
from tests.bentoml_cases.stage import Client, End, Model, tell

EARLY_MODELS = [(0.010, 0.004), (0.005, 0.005)]  # fixed and per item, of BentoML 0.13's own tests
SPAWNED = 10.0  # seconds until all users are there
PATIENCE = 9.5  # seconds


@pytest.mark.parametrize(("fixed", "per_item"), EARLY_MODELS)
def test_a1_batching_pays(fixed: float, per_item: float) -> None:
    """A1: 100 calls at once take less than 100 batches of one, in order (BentoML 0.13's test)."""
    model = Model(fixed, per_item)

    async def story(client: Client) -> None:
        assert all(end.answered for end in await client.burst(100))
        now = asyncio.get_running_loop().time()
        assert now < 100 * model.duration(1)
        assert now == model.duration(100)

    tell(story, model, max_batch_size=1000, max_latency=300.0)
    assert model.batches == [list(range(100))]


def profile(model: Model, users: int) -> list[End]:
    """Users who call again a second after their answer, for 20 s."""
    ends: list[End] = []

    async def story(client: Client) -> None:
        loop = asyncio.get_running_loop()

        async def user(number: int) -> None:
            await asyncio.sleep(SPAWNED * number / users)
            while loop.time() < 20.0:
                ends.append(await client.call(number))
                await asyncio.sleep(1.0)

        await asyncio.gather(*map(user, range(users)))

    tell(story, model, max_batch_size=10_000, max_latency=PATIENCE)
    assert all(end.took <= PATIENCE + 1e-6 for end in ends)
    unexpected = [end.error for end in ends if not isinstance(end.error, Refusals)]
    assert unexpected == []
    return ends


Refusals = (Overloaded, DeadlineExceeded, type(None))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("users", "fixed", "per_item", "longest"),
    [(10, 0.1, 0.002, 0.21), (400, 0.0, 0.002, 0.01), (2000, 0.1, 0.002, 4.3)],
    ids=["low", "medium", "high"],
)
def test_a4_loads_that_can_be_carried(
    users: int, fixed: float, per_item: float, longest: float
) -> None:
    """A4: every user is answered; the high load asks for 2,000 at once, which take 4.1 s."""
    ends = profile(Model(fixed, per_item), users)
    assert all(end.answered for end in ends)
    assert max(end.took for end in ends) < longest


def test_a4_a_load_that_is_far_too_high() -> None:
    """A4, slow: a second for each item, so nine can be in time where a thousand call.

    Nobody waits for longer than his 9.5 s, and no batch is ventured that nobody could wait for. (A
    batch of 34 after the first of one, and then of 68, would be the end of it.)
    """
    model = Model(0.1, 1.0)
    ends = profile(model, 1000)
    assert sum(end.answered for end in ends) >= 8
    assert max(len(batch) for batch in model.batches) == 9


def test_a4_collapse() -> None:
    """A4, collapse: 30 s for each item, so nobody can be answered, and nobody waits for ever."""
    ends = profile(Model(0.1, 30.0), 2000)
    assert not any(end.answered for end in ends)


def test_a8_batches_of_one() -> None:
    """A8: max_batch_size=1 is a batch size like any other.

    BentoML forbids it since its metrics crashed on it.
    """
    model = Model(0.01, 0.001)

    async def story(client: Client) -> None:
        assert all(end.answered for end in await client.burst(50))

    tell(story, model, max_batch_size=1, max_latency=60.0)
    assert [len(batch) for batch in model.batches] == [1] * 50


@pytest.mark.parametrize("duration", [0.5e-3, 1e-3, 1.1e-3, 5e-3])
def test_b9_short_batches(duration: float) -> None:
    """B9: the next batch leaves when the worker is free.

    BentoML looks once a millisecond, so that batches of 0.5 ms kept its worker busy half the time.
    """
    model = Model(duration, 0.0)

    async def story(client: Client) -> None:
        assert all(end.answered for end in await client.burst(500))
        assert model.busy / asyncio.get_running_loop().time() > 0.9

    tell(story, model, max_batch_size=1, max_latency=60.0)


def test_b9_bentoml_waits_for_its_tick() -> None:
    """B9: batches of 1.1 ms cost its worker 2 ms."""
    model = Model(1.1e-3, 0.0)

    async def story(client: Client) -> None:
        await client.burst(200)
        assert model.busy / asyncio.get_running_loop().time() < 0.6

    tell(story, model, max_batch_size=1, max_latency=60.0, policy="bentoml")
