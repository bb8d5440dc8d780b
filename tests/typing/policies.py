"""What a type checker sees of a policy of one's own. Checked by mypy in strict mode, never run."""

from adaptive_batching import (
    BatchRecord,
    Dispatch,
    Hold,
    Policy,
    QueueView,
    Reason,
    Service,
    Shed,
    ShedReason,
    batched,
)


class Patient:
    """Answers less than it may: a policy without sheds is a policy."""

    def __init__(self, patience: float = 5e-3) -> None:
        self.patience = patience

    def decide(self, queue: QueueView, now: float) -> Dispatch | Hold:
        limit = queue.limits.max_batch_size
        due = queue.head.arrived + self.patience
        if queue.items >= limit // 2 or now >= due:
            return Dispatch(limit, Reason.IDLE)
        return Hold(due)

    def observe(self, batch: BatchRecord) -> None:
        self.patience = max(self.patience, batch.duration)


class Impatient(Patient):
    def watch(self, queue: QueueView, now: float) -> Hold | Shed:
        late = [job for job in queue.jobs() if job.deadline - now < queue.latency.predict(job.size)]
        return Shed(late, ShedReason.HOPELESS) if late else Hold()


class Deaf:
    def decide(self, queue: QueueView, now: float) -> Dispatch:
        return Dispatch(1, Reason.IDLE)


class Vague(Patient):
    def decide(self, queue: QueueView, now: float) -> Dispatch | None:  # type: ignore[override]
        return None


async def echo(items: list[str]) -> list[str]:
    return items


mine: Policy = Impatient()
batched(policy=Patient)(echo)
batched(policy=Patient())(echo)
batched(policy=lambda: Patient(1e-3))(echo)
batched(policy="my_module:Patient")(echo)
Service().endpoint("/echo", policy=Impatient)(echo)

# ----------------------------------------------------- what must not pass; an ignore too many fails

batched(policy=Deaf)  # type: ignore[arg-type]
batched(policy=Deaf())  # type: ignore[arg-type]
batched(policy=Vague())  # type: ignore[arg-type]
batched(policy=7)  # type: ignore[arg-type]
Dispatch(2)  # type: ignore[call-arg]
Dispatch("2", Reason.IDLE)  # type: ignore[arg-type]
Dispatch(2, "idle")  # type: ignore[arg-type]
Hold("soon")  # type: ignore[arg-type]
