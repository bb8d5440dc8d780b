"""Worker processes with a GPU, an environment and an index of their own."""

import pytest

from adaptive_batching import Processes, Threads, worker_index
from adaptive_batching.errors import HandlerNotFound, WorkerLost, WorkerStartError
from adaptive_batching.workers.factory import make_workers
from adaptive_batching.workers.handler.handler import ConfiguredHandler
from tests.workers import on_gpu, placed
from tests.workers.conditions import until


async def test_each_process_has_its_device_before_its_module_is_imported(started, monkeypatch):
    """Two share the first GPU; the variables that are not theirs are the program's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    env = [{"PLACED": str(number)} for number in range(3)]
    pool = await started(placed.Placed, devices=[0, 0, "GPU-1f"], env=env)
    seen = [(await pool.run([""], worker))[0] for worker in range(3)]
    assert [each["device"] for each in seen] == ["0", "0", "GPU-1f"]
    assert [each["variable"] for each in seen] == ["0", "1", "2"]
    assert all(each["path"] for each in seen)
    with pytest.raises(ValueError, match="at most 3 workers, each has its cpus or its device"):
        await pool.scale(4)


async def test_a_replaced_worker_keeps_its_index(started, monkeypatch):
    """And with it its device, which is counted among those that the program sees itself."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    with pytest.raises(ValueError, match=r"numbers below 2, .*CUDA_VISIBLE_DEVICES='5,6', got 2"):
        await started(placed.Placed, devices=[2])
    pool = await started(placed.Placed, devices=[0, 1])
    with pytest.raises(Exception, match="worker 1"):
        await pool.run(["die"], 1)
    await until(lambda: pool.health.restarts == 1 and pool.health.alive == 2)
    (seen,) = await pool.run([""], 1)
    assert (seen["index"], seen["index_at_build"], seen["device"]) == (1, 1, "6")


@pytest.mark.parametrize(
    "how", ["assertion", "assertion_of_one", "assertion_in_a_list", "assertion_later"]
)
async def test_a_worker_that_loses_its_gpu_is_replaced(how, started):
    """It would fail all that come; an error that leaves it its GPU is the handler's own."""
    pool = await started(on_gpu.OnGpu)
    with pytest.raises(ArithmeticError, match="wrong"):
        await pool.run(["wrong"], 0)
    told = r"worker 0 \(.*\) lost its GPU, .*: CUDA error: device-side assert triggered, and was"
    with pytest.raises(WorkerLost, match=f"{told} killed while it held a batch of 2") as lost:
        await pool.run([how, "other"], 0)
    assert "In the worker process:\nTraceback" in lost.value.__cause__.__notes__[0]
    await until(lambda: pool.health.restarts == 1 and pool.health.alive == 1)
    assert await pool.run(["well"], 0) == ["well"]


async def test_a_worker_that_loses_its_gpu_beside_an_item_that_can_not_be_sent(started):
    """That item's own error does not make the others' a handler's."""
    pool = await started(on_gpu.OnGpu)
    with pytest.raises(WorkerLost, match="lost its GPU"):
        await pool.run(["assertion", lambda: None], 0)


async def test_a_gpu_that_the_handler_does_not_use_is_none_of_its_worries(started):
    """A module that only has PyTorch's name, and a device without memory of this process."""
    pool = await started(on_gpu.OnGpu)
    for how in ("odd", "unused"):
        with pytest.raises(ArithmeticError):
            await pool.run([how], 0)
    assert pool.health.restarts == 0


async def test_threads_have_indexes_as_well():
    """Each thread that of its worker; the program has the first, as if it were a worker."""
    workers = make_workers(placed.Placed, Threads(2))
    await workers.start(lambda: None)
    seen = [(await workers.run([""], worker))[0] for worker in range(2)]
    await workers.aclose()
    assert [(each["index"], each["index_at_build"]) for each in seen] == [(0, 0), (1, 1)]
    assert worker_index() == 0


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (
            {"env": [{}], "devices": [0, 1]},
            ValueError,
            "devices for 1 processes, got devices for 2",
        ),
        ({"count": 2, "devices": [0]}, ValueError, "devices for 2 processes, got devices for 1"),
        ({"count": 2, "env": [{}]}, ValueError, "expected env for 2 processes, got env for 1"),
        ({"devices": [0, -1]}, TypeError, "devices: expected the number or the name of a GPU"),
        ({"devices": "0,1"}, TypeError, "for each process, in a list, got '0,1'"),
        ({"devices": []}, ValueError, "expected devices for 1 processes"),
        ({"env": [{"A": 1}]}, TypeError, "env: expected a dict of texts for each process"),
        ({"env": {"A": "1"}}, TypeError, "env: expected a dict of texts for .* in a list"),
        ({"devices": [0], "env": [{"CUDA_VISIBLE_DEVICES": "1"}]}, ValueError, "leave one out"),
    ],
)
def test_devices_that_do_not_fit(arguments, error, told):
    """What was expected and what was given."""
    with pytest.raises(error, match=told):
        Processes(**arguments)


@pytest.mark.parametrize("own", [{"devices": [0, 0]}, {"env": [{}, {}]}, {"cpus": [0, [1, 2]]}])
def test_what_each_process_gets_says_how_many_there_are(own):
    """Where no count is given."""
    assert Processes(**own).count == 2


async def test_a_class_is_built_with_its_arguments(started):
    """In each process; what its constructor raises says why there is no worker."""
    pool = await started(ConfiguredHandler(placed.Scaled, {"factor": 3}), count=2)
    assert [await pool.run([2], worker) for worker in range(2)] == [[6], [6]]
    with pytest.raises(WorkerStartError, match="expected a factor"):
        await started(ConfiguredHandler(placed.Scaled, {"factor": 0}))
    with pytest.raises(HandlerNotFound, match=r"init_args of Scaled, .* can't be brought"):
        await started(ConfiguredHandler(placed.Scaled, {"factor": lambda: 3}))
