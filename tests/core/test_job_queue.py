"""The most urgent first, whatever is cancelled in between."""

from math import inf
from time import thread_time

from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.core.job import Job
from adaptive_batching.core.queues.job_queue import JobQueue


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
    assert queue._deadlines is not None
    assert len(queue._deadlines.heap) < 200


def test_the_earliest_deadline_leaves_first() -> None:
    """Who has less time goes before those that came earlier; the batch lists the oldest first."""
    queue = JobQueue()
    patient, hasty, hastier = (Job(i, deadline=d) for i, d in enumerate((90.0, 20.0, 10.0)))
    for job in (patient, hasty, hastier):
        queue.append(job)
    assert (queue.head, queue.oldest, queue.soonest) == (hastier, patient, hastier)
    assert list(queue) == [hastier, hasty, patient]
    assert queue.take(2) == [hasty, hastier]


def test_no_job_is_put_off_for_longer_than_the_deferral() -> None:
    """One without a deadline goes before those that have become urgent after it did."""
    queue = JobQueue(lambda: 5.0)
    patient, early, late = Job(0.0), Job(1.0, deadline=4.9), Job(1.0, deadline=5.1)
    for job in (patient, late, early):
        queue.append(job)
    assert list(queue) == [early, patient, late]
    assert list(queue.by_deadline()) == [early, late, patient]
    queue.remove(early)
    assert (queue.head, queue.soonest, queue.earliest_deadline) == (patient, late, 5.1)


def test_equal_promises_are_served_in_the_order_of_arrival() -> None:
    """Whatever the deferral, and without a heap: there is nothing to put in order."""
    seconds = [0.0]
    queue = JobQueue(lambda: seconds[0])
    jobs = [Job(float(i), deadline=10.0 + i) for i in range(9)]
    for i, job in enumerate(jobs):
        seconds[0] = 100.0 / (i + 1)
        queue.append(job)
    assert queue._deadlines is None
    assert list(queue) == jobs


def taken(in_turn: list[Job], room: int, passed: set[Job]) -> list[Job]:
    """Which of some jobs, in order of leaving, a batch with so much room takes."""
    batch: list[Job] = []
    for job in in_turn:
        if job.size <= room:
            room -= job.size
            batch.append(job)
        elif not room or not batch or job in passed:
            break
        else:
            passed.add(job)
    return batch


def ahead(model: list[Job], job: Job, deferral: float) -> int:
    """Items that are more urgent than a job, or as urgent."""
    return sum(each.size for each in model if urgency(each, deferral) <= urgency(job, deferral))


def urgency(job: Job, deferral: float) -> float:
    """From when on it goes before all that come."""
    return min(job.deadline, job.arrived + deferral)


STEPS = st.sampled_from(["append", "append", "ask", "cancel", "take", "expire", "wait", "learn"])


@given(st.lists(STEPS, max_size=80), st.data())
def test_counts_are_right_after_anything(steps: list[str], data: st.DataObject) -> None:
    """Items, requests, order, bounds and the earliest deadline agree with a plain list."""
    deferral, now = [inf], 0.0
    queue, model, passed = JobQueue(lambda: deferral[0]), list[Job](), set[Job]()
    promises = data.draw(st.sampled_from([[5], [inf], [1, 2, 5, 9], [2, inf]]))
    for step in steps:
        if step in {"append", "ask"}:
            patience = data.draw(st.sampled_from(promises))
            job = Job(now, data.draw(st.integers(1, 4)), now + patience)
            least = ahead(model, job, deferral[0])
            assert least <= queue.ahead_of(job) <= min(2 * least, queue.items)
            if step == "append":
                queue.append(job)
                model.append(job)
        elif step == "cancel" and model:
            job = model.pop(data.draw(st.integers(0, len(model) - 1)))
            queue.remove(job)
        elif step == "take":
            room = data.draw(st.integers(1, 8))
            in_turn = sorted(model, key=lambda job: urgency(job, deferral[0]))
            batch = taken(in_turn, room, passed)
            assert set(queue.take(room)) == set(batch)
            model = [job for job in model if job not in batch]
        elif step == "expire":
            expired = [job for job in model if job.deadline <= now]
            assert queue.take_expired(now) == expired
            model = [job for job in model if job.deadline > now]
        elif step == "wait":
            now += 1.0
        elif step == "learn":
            deferral[0] = data.draw(st.sampled_from([0.5, 3.5, 7.5, inf]))
        assert set(queue) == set(model)
        assert [urgency(job, deferral[0]) for job in queue] == sorted(
            urgency(job, deferral[0]) for job in model
        )
        assert not model or queue.head is next(iter(queue))
        assert not model or queue.oldest.arrived == min(job.arrived for job in model)
        assert (queue.requests, queue.items) == (len(model), sum(job.size for job in model))
        assert queue.earliest_deadline == min((job.deadline for job in model), default=inf)
        due = [job.deadline for job in queue.by_deadline()]
        assert due == sorted(job.deadline for job in model)


def test_who_has_left_may_wait_elsewhere() -> None:
    """A deadline that the queue once knew is not its own any more, even if the job waits again."""
    queue, other = JobQueue(), JobQueue()
    soon, later = Job(0.0, deadline=1.0), Job(0.0, deadline=9.0)
    for job in (Job(0.0, deadline=5.0), soon, later):  # not in their order: a heap knows the next
        queue.append(job)
    assert queue.take(1) == [soon]
    other.append(soon)
    assert queue.earliest_deadline == 5.0
    assert queue.take_expired(1.0) == []
    assert other.take_expired(1.0) == [soon]
    assert (queue.requests, other.requests) == (2, 0)


def test_all_that_wait_expire_beside_many_that_were_cancelled() -> None:
    """Deadlines in another order than the jobs, and two in three jobs have left already."""
    queue = JobQueue()
    cancelled = [Job(float(n), deadline=2000.0 - n) for n in range(100)]
    late = [Job(100.0 + n, deadline=1000.0 - n) for n in range(40)]
    for job in cancelled + late:
        queue.append(job)
    for job in cancelled:
        queue.remove(job)
    assert queue.take_expired(1500.0) == late
    assert (queue.items, queue.requests) == (0, 0)


@given(
    st.lists(st.floats(0.1, 60.0), min_size=1, max_size=60),
    st.sampled_from([0.0, 1e4]),
    st.booleans(),
    st.data(),
)
def test_of_the_jobs_ahead_those_that_do_not_expire_are_counted(
    patiences: list[float],
    now: float,
    in_order: bool,  # noqa: FBT001  drawn
    data: st.DataObject,
) -> None:
    """Also after hours in which the queue was never empty, and if some are cancelled."""
    queue = JobQueue()
    if now:
        for job in [Job(0.0, 1, 1.0 + number % 2) for number in range(100)]:
            queue.append(job)
            queue.ahead_of(Job(0.0, 1, 1.5))
        first = Job(now, 1, now)
        queue.append(first)
        while queue.head is not first:
            queue.remove(queue.head)
        queue.ahead_of(Job(now, 1, now - 1.0))
    jobs = [Job(now, 1, now + each) for each in (sorted(patiences) if in_order else patiences)]
    for job in jobs:
        queue.append(job)
    if now:
        queue.remove(first)
    if data.draw(st.booleans()):
        queue.expiring(now)
    for job in data.draw(st.lists(st.sampled_from(jobs), max_size=len(jobs) - 1, unique=True)):
        queue.remove(job)
    patiences = [job.deadline - now for job in jobs if job.queue is queue]
    most = max(patiences) if in_order else data.draw(st.sampled_from(patiences))
    job, instant = Job(now, 1, now + most), data.draw(st.floats(0.0, most))
    left = queue.unexpired(queue.ahead_of(job), now + instant)
    assert left >= sum(instant * 1.01 < each <= most * 0.99 for each in patiences)
    assert left <= sum(instant * 0.99 <= each <= most * 1.01 for each in patiences)


def test_a_queue_that_was_empty_counts_from_nothing() -> None:
    """Neither what has left together is counted on, nor from an instant at which it was empty."""
    queue, _ = queue_of(3)  # items
    assert queue.expiring(inf) == 3
    queue.take(3)
    queue.append(Job(1.0, 2, 5.0))
    assert (queue.expiring(4.0), queue.expiring(5.0)) == (0, 2)
    queue.take(2)
    assert queue.expiring(9.0) == 0
    queue.append(Job(6.0, 1, 7.0))
    assert queue.expiring(8.0) == 1
