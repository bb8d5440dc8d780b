"""Operators are told that a model pads batches to a few sizes, once and beside the requests."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from random import Random

import pytest

from adaptive_batching.core import Batch, BatchRecord, Limits, Outcome, Reason
from adaptive_batching.instrumentation.size_advice import SizeAdvice

BATCH = Batch([], 0, None, Reason.FULL, 0.0, 0.0, 0, 0)
FOUND = "33 items take as long as 64"
SETTING = "sizes=[1, 2, 4, 8, 16, 32, 64]"


def power_of_two(size):
    return 1 << (size - 1).bit_length()


def ended(size, run, *, key=None, outcome=Outcome.DONE, cost=0.0):
    """The record of a batch whose worker ran so many items."""
    seconds = 5e-3 + 0.4e-3 * run
    record = BatchRecord(0.0, seconds, size, 1, key, Reason.FULL, outcome, 0.0, 0.0, 0)
    return record._replace(cost=cost, padded_size=size)


async def told(advice, batches=600, padded=power_of_two, seed=1, **how):
    """Batches of 1 to 64 items end, and what was to be looked at has been."""
    loop, rng = asyncio.get_running_loop(), Random(seed)
    loop.set_default_executor(ThreadPoolExecutor(1))
    for _ in range(batches):
        size = round(2 ** rng.uniform(0, 6))
        advice.batch_ended(BATCH, ended(size, padded(size), **how))
    await loop.run_in_executor(None, int)  # behind all looks


async def test_steps_are_told_once_in_the_log_and_from_then_on_to_viewers(caplog):
    """Until limits declare them, and in the words of whoever declares them."""
    advice = SizeAdvice("/embed", attrgetter("setting"))
    limits = Limits(64)
    assert advice.sentence(limits) == ""
    await told(advice)
    sentence = f"{FOUND}: declare {SETTING}"
    assert [line for _, _, line in caplog.record_tuples] == [f"/embed: {sentence}"]
    assert caplog.records[0].levelno == logging.WARNING
    assert advice.sentence(limits) == sentence
    assert advice.sentence(Limits(64, sizes=(1, 2, 4, 8, 16, 32, 64))) == ""


async def test_a_command_declares_them_by_an_option():
    """As a sidecar's routes do."""
    advice = SizeAdvice("default", attrgetter("option"))
    await told(advice)
    assert advice.sentence(Limits(64)) == f"{FOUND}: declare --sizes 1,2,4,8,16,32,64"


async def test_steps_that_are_no_more_are_not_told():
    """A model that pads no longer takes the advice away."""
    advice = SizeAdvice("/embed", attrgetter("setting"))
    await told(advice, batches=128)
    assert advice.sentence(Limits(64))
    await told(advice, batches=1024, padded=int)
    assert advice.sentence(Limits(64)) == ""


@pytest.mark.parametrize("how", [{"outcome": Outcome.FAILED}, {"cost": 5.0}])
async def test_batches_whose_size_does_not_say_how_long_they_take_are_left_out(how):
    """Failed ones, and those of items with costs."""
    advice = SizeAdvice("/embed", attrgetter("setting"))
    await told(advice, **how)
    assert advice.sentence(Limits(64)) == ""


async def test_keys_are_looked_at_by_themselves():
    """A fast key with small batches and a slow one with large ones are no steps."""
    advice = SizeAdvice("/embed", attrgetter("setting"))
    rng = Random(1)
    for _ in range(1200):
        small, large = rng.randint(1, 8), rng.randint(9, 16)
        advice.batch_ended(BATCH, ended(small, 8, key="fast"))
        advice.batch_ended(BATCH, ended(large, 64, key="slow"))
    await told(advice, batches=0)
    assert advice.sentence(Limits(64)) == ""
