"""First in, first out, whatever is cancelled in between."""

from time import thread_time

from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core.job import Job
from adaptive_batching.core.queue import JobQueue


def queue_of(*sizes: int) -> tuple[JobQueue, list[Job]]:
    queue = JobQueue()
    jobs = [Job(float(i), size, deadline=10.0 + i) for i, size in enumerate(sizes)]
    for job in jobs:
        queue.append(job)
    return queue, jobs


def test_smaller_jobs_fill_what_a_larger_one_leaves_free() -> None:
    """A job that does not fit is passed, by what still fits."""
    queue, jobs = queue_of(3, 4, 1, 2, 1)
    assert queue.take(5) == [jobs[0], jobs[2], jobs[4]]
    assert (queue.items, queue.requests, queue.head) == (6, 2, jobs[1])
    assert queue.take(6) == [jobs[1], jobs[3]]


def test_no_job_is_passed_by_a_second_batch() -> None:
    """What did not fit twice is not kept waiting by those that came after it."""
    queue, jobs = queue_of(3, 4, 4, 1, 1)
    assert queue.take(4) == [jobs[0], jobs[3]]
    assert queue.take(5) == [jobs[1]]  # not the last as well, for the third was passed already
    assert queue.take(5) == [jobs[2], jobs[4]]


def test_the_oldest_job_is_passed_by_none() -> None:
    """A batch into which it does not fit takes nothing."""
    queue, jobs = queue_of(3, 1)
    assert queue.take(2) == []
    assert queue.take(4) == jobs


def test_a_cancelled_job_is_never_taken() -> None:
    """Cancelling takes a job out, first, last or in the middle."""
    queue, jobs = queue_of(1, 1, 1, 1)
    for index in (0, 2):
        queue.remove(jobs[index])
    assert queue.head is jobs[1]
    assert queue.take(10) == [jobs[1], jobs[3]]
    assert (queue.items, queue.requests) == (0, 0)


def test_gravestones_do_not_pile_up() -> None:
    """A caller that submits and cancels for ever does not fill the memory behind a stuck worker."""
    queue, _ = queue_of(1)
    for i in range(10_000):
        job = Job(float(i))
        queue.append(job)
        queue.remove(job)
    assert len(queue._jobs) < 200


def test_the_earliest_deadline_is_known_in_any_order() -> None:
    """Deadlines may come in another order than arrivals."""
    queue = JobQueue()
    for deadline in (5.0, 3.0, 4.0):
        queue.append(Job(0.0, deadline=deadline))
    assert queue.earliest_deadline == 3.0
    assert [job.deadline for job in queue.take_expired(3.5)] == [3.0]
    assert queue.earliest_deadline == 4.0


def test_deadlines_of_ones_own_do_not_slow_the_queue() -> None:
    """Fifty times the jobs that wait make the earliest deadline no more than ten times as dear."""

    def seconds(jobs: int) -> float:
        queue = JobQueue()
        for i in range(jobs):
            queue.append(Job(0.0, deadline=1e6 + (i * 7919) % jobs))
        begun = thread_time()
        for i in range(300):
            queue.append(Job(0.0, deadline=1e6 - i))
            assert queue.earliest_deadline == 1e6 - i
            assert not queue.take_expired(0.0)
        return thread_time() - begun

    assert min(seconds(50_000) for _ in range(3)) < 10 * min(seconds(1_000) for _ in range(3))


def test_those_who_left_do_not_pile_up() -> None:
    """Neither those with late deadlines behind one that is always the earliest."""
    queue, _ = queue_of(1)
    for i in range(10_000):
        queue.append(Job(0.0, deadline=1e6 - i))
        queue.remove(queue.newest)
    assert queue._by_deadline is not None
    assert len(queue._by_deadline) < 200


@given(st.lists(st.sampled_from(["append", "cancel", "take", "expire"]), max_size=80), st.data())
def test_counts_are_right_after_anything(steps: list[str], data: st.DataObject) -> None:
    """Items, requests, order and the earliest deadline agree with a plain list."""
    queue, model, now = JobQueue(), list[Job](), 0.0
    for step in steps:
        if step == "append":
            job = Job(now, data.draw(st.integers(1, 4)), now + data.draw(st.integers(1, 9)))
            queue.append(job)
            model.append(job)
        elif step == "cancel" and model:
            job = model.pop(data.draw(st.integers(0, len(model) - 1)))
            queue.remove(job)
        elif step == "take":
            room = data.draw(st.integers(1, 8))
            for job in queue.take(room):
                assert job is model.pop(0)
                room -= job.size
            assert room >= 0
            assert not model or model[0].size > room
        elif step == "expire":
            now += 1.0
            if any(job.deadline <= now for job in model):
                assert queue.take_expired(now) == [job for job in model if job.deadline <= now]
                model = [job for job in model if job.deadline > now]
        assert list(queue) == model
        assert (queue.requests, queue.items) == (len(model), sum(job.size for job in model))
        assert queue.earliest_deadline == min((j.deadline for j in model), default=float("inf"))


def test_who_has_left_may_wait_elsewhere():
    """A deadline that the queue once knew is not its own any more, even if the job waits again."""
    queue, other = JobQueue(), JobQueue()
    soon, later = Job(0.0, deadline=1.0), Job(0.0, deadline=9.0)
    for job in (Job(0.0, deadline=5.0), soon, later):  # not in their order: a heap knows the next
        queue.append(job)
    assert queue.take(2)[1] is soon
    other.append(soon)
    assert queue.earliest_deadline == 9.0
    assert queue.take_expired(1.0) == []
    assert other.take_expired(1.0) == [soon]
    assert (queue.requests, other.requests) == (1, 0)
