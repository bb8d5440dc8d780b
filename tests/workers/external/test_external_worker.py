"""The reference worker in Python: processes that connect, pull, and leave."""

import asyncio
import re
import shutil
import signal
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from adaptive_batching.core import JobOutcome, Limits
from adaptive_batching.dispatcher import Dispatcher
from adaptive_batching.errors import RemoteError, WorkerLost, WorkerTimeout
from adaptive_batching.workers.elsewhere import ExternalWorkers
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.results import CallRaised
from tests.marshal.client import until
from tests.workers.external.scene import asked
from tests.workers.external.test_external import elsewhere

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def pull(scene):
    """Start a worker process for the scene's socket, and kill it afterwards."""
    async with AsyncExitStack() as stack:

        async def start(handler, *options, module="handlers"):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-W", "error", "-m", "adaptive_batching.external_worker"),
                *("--connect", scene.path, *options, f"tests.workers.{module}:{handler}"),
                cwd=ROOT,
                stderr=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(killed, process)
            return process

        yield start


async def killed(process):
    with suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


async def gone(process):
    """How it ended and what it said."""
    _, said = await process.communicate()
    return process.returncode, said.decode()


async def test_it_comes_before_the_socket_and_after_a_restart(scene, pull):
    """It tries again until somebody listens, and finds its place again."""
    process = await pull("double", "--name", "gpu-0")
    assert b"No such file or directory; trying again in" in await process.stderr.readline()
    for _ in range(2):
        workers = await scene.listen()
        await scene.changes.until(lambda: workers.health.alive)  # noqa: B023  awaited in its round
        assert workers.health.identities == {0: "gpu-0"}
        assert await workers.run([1, 2.5, b"ab"], 0) == [2, 5.0, b"abab"]
        await workers.aclose()


async def test_whatever_a_handler_does_it_answers(scene, pull):
    """Failures are answers in words; the process goes on."""
    workers = await scene.listen()
    await pull("Obeys")
    await scene.changes.until(lambda: workers.health.alive)
    for order, message in [
        ("exit", "SystemExit: 3"),
        ("value_error", "ValueError: .'no such thing', 7."),
        ("too_short", "BatchFunctionError: Obeys: expected 2 results for a batch of 2, got 1"),
        ("unpicklable_error", "ValueError: <unlocked"),
    ]:
        one, other = await workers.run([order, "other"], 0)
        assert (type(one), str(one)) == (CallRaised, str(other))
        assert re.search(message, str(one))
    fine, key = await workers.run(["errors_in_place", 2], 0)
    assert fine == "errors_in_place"
    assert str(key) == "KeyError: 'second'"
    fine, lock = await workers.run(["unpicklable_result", "lock"], 0)
    assert "no form for this lock" in str(lock)
    assert await workers.run(["array", 1], 0) == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert workers.health.identities.keys() == {0}


async def test_a_handler_of_arrays_gets_arrays(scene, pull):
    """Stacked from lists of numbers, as are its results; a wrong item fails alone."""
    workers = await scene.listen()
    await pull("Norms", module="array_handlers")
    await scene.changes.until(lambda: workers.health.alive)
    good, wrong, shorter = await workers.run([[3.0, 4.0], ["x"], [2.0]], 0)
    assert good == {"norm": 5.0, "unit": [3 / 5, 4 / 5]}
    assert shorter == {"norm": 2.0, "unit": [1.0, 0.0]}
    assert "InvalidItem" in str(wrong)


async def test_a_handler_whose_annotations_say_too_little(scene, pull):
    """It is told so before the model is loaded."""
    status, said = await gone(await pull("unclear", module="array_handlers"))
    assert status == 2
    assert "expected what one item is of the arrays to stack" in said


@pytest.mark.parametrize(
    ("name", "said"), [("nosuch", "no attribute 'nosuch'"), ("nosuch:double", "No module named")]
)
async def test_a_handler_that_can_not_be_imported(scene, pull, name, said):
    """It is told in a line what was expected."""
    module, _, handler = name.rpartition(":")
    status, told = await gone(await pull(handler, module=module or "handlers"))
    assert status == 1
    assert "expected MODULE:HANDLER" in told
    assert said in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("os", "expected a function, a method or a class as handler, got <module 'os'"),
        ("AT_IMPORT", "expected a function, a method or a class as handler, got {"),
        ("Uncallable", "expected Uncallable to define __call__(self, items), got a class without"),
        ("yields", "expected one that returns a list, got yields, which yields"),
    ],
)
async def test_what_can_not_be_called_with_a_batch(pull, name, said):
    """It is refused before the worker connects, in the words of `@batched` and endpoints."""
    status, told = await gone(await pull(name))
    assert status == 2
    assert said in told
    assert "Traceback" not in told


async def test_items_may_fail_in_a_step_of_their_own(scene, pull):
    """They alone; what the call of the others raises is told apart, for a second try."""
    workers = await scene.listen()
    await pull("Sensitive")
    await scene.changes.until(lambda: workers.health.alive)
    good, before, after = await workers.run(["1", "not a number", "-1"], 0)
    assert good == "1 of 2"
    assert (str(before), str(after)) == ("ValueError: not a number", "OverflowError: -1")
    own, raised = await workers.run(["not a number", "0"], 0)
    assert (type(own), str(own)) == (RemoteError, "ValueError: not a number")
    assert isinstance(raised, CallRaised)
    assert str(raised).startswith("ZeroDivisionError")


async def test_results_longer_than_a_frame_fail_their_batch(scene, pull):
    """They are not sent; the worker stays connected."""
    workers = await scene.listen(max_frame=10_000)
    await pull("double", "--max-frame", "10000")
    await scene.changes.until(lambda: workers.health.alive)
    (raised,) = await workers.run([bytes(6000)], 0)
    assert "FrameTooLong: expected a frame of at most 10000 bytes" in str(raised)
    assert await workers.run([1], 0) == [2]


async def test_async_handlers_are_warmed_up_and_awaited(scene, pull):
    """As in worker processes that we start."""
    workers = await scene.listen()
    await pull("Warmed")
    await scene.changes.until(lambda: workers.health.alive)
    assert await workers.run([1, 2], 0) == [True, True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_leaves_when_it_is_told_to(scene, pull, number):
    """Idle or between two attempts to connect, it ends well at once."""
    away = await pull("double")
    await away.stderr.readline()
    workers = await scene.listen()
    idle = await pull("double", "--name", "idle")
    await scene.changes.until(lambda: "idle" in workers.health.identities.values())
    for process in (away, idle):
        process.send_signal(number)
        code, said = await gone(process)
        assert code == 0
        assert "Traceback" not in said
    await scene.changes.until(lambda: not workers.health.alive)


async def test_it_answers_its_batch_before_it_leaves(scene, pull):
    """No request is lost when workers are replaced one by one."""
    workers = await scene.listen()
    process = await pull("sluggish")
    await scene.changes.until(lambda: workers.health.alive)
    batch = asked(workers, [1])
    await asyncio.sleep(0)
    process.send_signal(signal.SIGTERM)
    assert await batch == [["sluggish", 1]]
    await scene.changes.until(lambda: not workers.health.alive)
    assert (await gone(process))[0] == 0


async def test_it_is_killed_in_the_middle_of_a_batch(scene, pull):
    """The batch is lost at once, and the next worker takes the next one."""
    workers = await scene.listen()
    process = await pull("Obeys")
    await scene.changes.until(lambda: workers.health.alive)
    batch = asked(workers, ["hang"])
    await asyncio.sleep(0)
    process.kill()
    with pytest.raises(WorkerLost, match="closed its connection while it held a batch of 1"):
        await batch
    assert workers.health.alive == 0
    await pull("Obeys")
    await scene.changes.until(lambda: workers.health.alive)
    assert await workers.run(["echo"], 0) == ["echo"]


async def test_it_is_stopped_and_goes_on(scene, pull):
    """It is hung up on at the batch timeout, and comes back when it can."""
    workers = await scene.listen(batch_timeout=1.0)
    process = await pull("double", "--name", "stopped")
    await scene.changes.until(lambda: workers.health.alive)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(WorkerTimeout, match=r"'stopped' .* did not answer a batch of 1 in 1 s"):
        await workers.run([1], 0)
    assert workers.health.alive == 0
    process.send_signal(signal.SIGCONT)
    await scene.changes.until(lambda: workers.health.identities == {0: "stopped"})
    assert await workers.run([1], 0) == [2]


async def test_a_handler_that_is_not_there(scene, pull):
    """It says so and does not connect."""
    code, said = await gone(await pull("nobody"))
    assert code == 1
    assert "has no attribute 'nobody'" in said


async def test_a_hello_that_nobody_would_accept(scene, pull):
    """It is told before the model is loaded."""
    code, said = await gone(await pull("double", "--max-batch-size", "0"))
    assert code == 2
    assert "max_batch_size: expected at least 1 item, as a whole number, got 0" in said


async def test_a_model_of_a_few_sizes(scene, pull):
    """The worker fills its batches up, and is sent none that is larger than the largest."""
    workers = await scene.listen()
    await pull("count", "--sizes", "2,4", module="sized")
    await scene.changes.until(lambda: workers.health.alive)
    assert await workers.run(["a", "b", "c"], 0) == [["a", "b", "c", "c"]] * 3
    assert await workers.run([*"abcde"], 0) == [["a", "b", "c", "d"]] * 4 + [["e", "e"]]


async def test_a_worker_that_takes_no_batch_of_the_largest_size(scene, pull):
    """Like any handler with sizes, it may say one of them."""
    workers = await scene.listen()
    await pull("count", "--sizes", "1,2,4", "--max-batch-size", "2", module="sized")
    await scene.changes.until(lambda: workers.health.alive)
    assert await workers.run([*"abc"], 0) == [["a", "b"]] * 2 + [["c"]]


async def test_a_model_of_a_few_lengths(scene, pull):
    """The worker pads arrays to the next of them, in batches of a size that the model takes."""
    workers = await scene.listen()
    await pull("waves", "--sizes", "2,4", "--pad-costs", "4,8", module="sized")
    await scene.changes.until(lambda: workers.health.alive)
    assert await workers.run([[1.0], [2.0, 2.0]], 0) == [[1, 2, 4], [4, 2, 4]]
    assert await workers.run([[1.0] * 5, [1.0], [1.0]], 0) == [[5, 4, 8], [1, 4, 8], [1, 4, 8]]


@pytest.mark.parametrize(
    ("option", "numbers", "message"),
    [
        ("--sizes", "4,2", "sizes: expected whole numbers of items from 1"),
        ("--sizes", "2,x", "such as 1,2,4,8, got '2,x'"),
        ("--pad-costs", "8,4", "pad_costs: expected positive numbers, each larger"),
    ],
)
async def test_sizes_and_lengths_that_are_none(pull, option, numbers, message):
    """They are told before the model is loaded."""
    code, said = await gone(await pull("count", option, numbers, module="sized"))
    assert code == 2
    assert message in said


async def test_workers_of_unlike_speed(scene, pull):
    """The quicker a worker asks again, the more it gets; each one's speed is known by itself."""
    workers = make_workers(elsewhere, ExternalWorkers(str(scene.path)))
    dispatcher = Dispatcher(workers, Limits(max_batch_size=4), policy="greedy")
    await dispatcher.start()
    names = ("brisk", "steady", "sluggish")
    for name in names:
        await pull(name, "--name", name)
    await until(lambda: dispatcher.stats().workers == 3)

    async def client(number):
        return [await dispatcher.submit(1000 * number + turn) for turn in range(40)]

    answers = await asyncio.gather(*map(client, range(12)))
    for number, answered in enumerate(answers):
        assert [value for _, value in answered] == [1000 * number + turn for turn in range(40)]
    shares = {name: sum(a == name for each in answers for a, _ in each) for name in names}
    assert shares["brisk"] > shares["steady"] > shares["sluggish"] > 0
    stats = dispatcher.stats()
    assert stats.requests[JobOutcome.DONE] == 480
    by_name = {who: stats.per_worker[at] for at, who in workers.health.identities.items()}
    full = [by_name[name].full_batch for name in names]
    assert full == sorted(full)
    assert full[2] > 2 * full[0]
    await dispatcher.aclose()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
async def test_a_worker_in_another_language(scene):
    """The example in Node.js: values there and back, errors, reconnection and farewell."""
    async with AsyncExitStack() as stack:
        node = await asyncio.create_subprocess_exec(
            "node", ROOT / "docs/examples/worker.mjs", scene.path, stderr=asyncio.subprocess.PIPE
        )
        stack.push_async_callback(killed, node)
        assert b"ENOENT" in await node.stderr.readline()
        for _ in range(2):
            workers = await scene.listen()
            await scene.changes.until(lambda: workers.health.alive)  # noqa: B023  in its round
            numbers = [0, 1, 200, 70_000, 2**40, -1, -100, -1000, -(2**40), 0.25]
            assert await workers.run(numbers, 0) == [2 * number for number in numbers]
            text, two = await workers.run(["text", 1], 0)
            assert isinstance(text, RemoteError)
            assert (str(text), two) == ("TypeError: expected a number", 2)
            others = [None, True, {"map": [1.5, "ü" * 300]}, {str(n): n for n in range(20)}, b"bin"]
            assert {str(each) for each in await workers.run(others, 0)} == {str(text)}
            large = [7, bytes(10**6), 8]
            assert [str(each) for each in await workers.run(large, 0)] == ["14", str(text), "16"]
            assert await workers.run(list(range(1000)), 0) == list(range(0, 2000, 2))
            await workers.aclose()
        workers = await scene.listen()
        await scene.changes.until(lambda: workers.health.alive)
        node.send_signal(signal.SIGTERM)
        code, _ = await gone(node)
        assert code == 0
