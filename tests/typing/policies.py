"""What a type checker sees of a policy of one's own. Checked by mypy in strict mode, never run."""

from adaptive_batching import (
    BatchRecord,
    Dispatch,
    Hold,
    Policy,
    Reason,
    Service,
    Shed,
    ShedReason,
    Situation,
    batched,
)


class Patient:
    """Answers less than it may: a policy without sheds is a policy."""

    def __init__(self, patience: float = 5e-3) -> None:
        self.patience = patience

    def decide(self, situation: Situation) -> Dispatch | Hold:
        limit = situation.limits.max_batch_size
        due = situation.head.arrived + self.patience
        if situation.items >= limit // 2 or situation.now >= due:
            return Dispatch(limit, Reason.IDLE)
        return Hold(due)

    def observe(self, batch: BatchRecord) -> None:
        self.patience = max(self.patience, batch.duration)


class Impatient(Patient):
    def watch(self, situation: Situation) -> Hold | Shed:
        late = [
            job
            for job in situation.jobs
            if job.deadline - situation.now < situation.predict(job.size)
        ]
        return Shed(late, ShedReason.HOPELESS) if late else Hold()


class Deaf:
    def decide(self, situation: Situation) -> Dispatch:
        return Dispatch(1, Reason.IDLE)


class Vague(Patient):
    def decide(self, situation: Situation) -> Dispatch | None:  # type: ignore[override]
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
batched(policy=Deaf())  # type: ignore[call-overload]
batched(policy=Vague())  # type: ignore[call-overload]
batched(policy=7)  # type: ignore[call-overload]
Dispatch(2)  # type: ignore[call-arg]
Dispatch("2", Reason.IDLE)  # type: ignore[arg-type]
Dispatch(2, "idle")  # type: ignore[arg-type]
Hold("soon")  # type: ignore[arg-type]
