"""Cores: those of workers, and those of the process that they serve."""

import os
import threading

import pytest

from adaptive_batching.workers.pinning import available, check_cpus, pinned
from tests.workers import handlers

CORES = sorted(os.sched_getaffinity(0))

two_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")


@pytest.mark.parametrize("cpus", [CORES[:1], CORES[:2]], ids=["one", "two"])
async def test_libraries_have_as_many_threads_as_the_worker_has_cores(started, monkeypatch, cpus):
    """BLAS and OpenMP ask the environment when they are loaded, and that is after pinning."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    pool = await started(handlers.thread_pools, cpus=[cpus])
    (pools,) = await pool.run([0], 0)
    assert {"blas", "openmp"} <= pools.keys()
    assert set(pools.values()) == {len(cpus)}


@two_cores
async def test_fewer_threads_if_the_user_says_so(started, monkeypatch):
    """A smaller number in the environment stands; a larger one would get in its own way."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "64")
    pool = await started(handlers.thread_pools, cpus=[CORES[:2]])
    (pools,) = await pool.run([0], 0)
    assert (pools["openmp"], pools["blas"]) == (1, 2)


@two_cores
def test_a_pinned_process_goes_back_to_where_it_was():
    """So does each thread, and one that came meanwhile may run wherever the process could."""
    seen, inside, done = {}, threading.Barrier(3), threading.Event()

    def wait():
        inside.wait()
        seen[threading.current_thread().name, "inside"] = sorted(os.sched_getaffinity(0))
        inside.wait()
        done.wait()
        seen[threading.current_thread().name, "after"] = sorted(os.sched_getaffinity(0))

    old = threading.Thread(target=wait, name="old")
    new = threading.Thread(target=wait, name="new")
    old.start()
    with pinned(CORES[:1]):
        new.start()
        assert sorted(os.sched_getaffinity(0)) == CORES[:1]
        assert sorted(available()) == CORES
        inside.wait()
        inside.wait()
    assert sorted(os.sched_getaffinity(0)) == CORES
    done.set()
    old.join()
    new.join()
    assert seen == {
        ("old", "inside"): CORES[:1],
        ("new", "inside"): CORES[:1],
        ("old", "after"): CORES,
        ("new", "after"): CORES,
    }


@two_cores
async def test_workers_of_a_pinned_process(started):
    """They may run anywhere, or on the cores that they were given, also others than its own."""
    with pinned(CORES[:1]):
        free = await started(handlers.cores)
        own = await started(handlers.cores, cpus=[CORES[1]])
        assert await free.run([0], 0) == [CORES]
        assert await own.run([0], 0) == [CORES[1:2]]


@pytest.mark.parametrize(
    ("cpus", "got"), [([4096], r"\[4096\]"), ([], "none"), (["0"], r"\['0'\]")]
)
def test_cores_that_are_not_there(cpus, got):
    """They are named, with those that are."""
    with pytest.raises(ValueError, match=rf"expected cpus out of \[.*\], got {got}"):
        check_cpus(cpus)
