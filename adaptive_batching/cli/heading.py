"""What was simulated, said in a line above each table and report."""

from dataclasses import asdict
from math import inf

from adaptive_batching.simulation.study.experiment import Experiment
from adaptive_batching.simulation.study.traffic import Traffic
from adaptive_batching.units import format_duration


def title(traffic: Traffic, experiment: Experiment) -> str:
    """What was simulated, in a line."""
    promise = experiment.limits.max_latency
    within = "no max_latency" if promise == inf else f"within {format_duration(promise)}"
    rate = traffic.facts["rate"]
    known = (_per_second(rate),) if isinstance(rate, float) else ()
    shaped = (
        f"{name.replace('_', ' ')} {factor:g}"
        for name, factor in asdict(traffic.shaping).items()
        if factor != 1
    )
    kinds = (traffic.keyed, traffic.crowd, _costed(traffic, experiment))
    keyed = tuple(str(each) for each in kinds if each is not None)
    again = () if experiment.retries is None else (str(experiment.retries),)
    own = ("unless recorded",) if traffic.max_latencies is not None else ()
    fleet = experiment.fleet
    several = (str(fleet),) if fleet.dispatchers > 1 else ()
    late = (f"loop {format_duration(experiment.loop_delay)} late",) if experiment.loop_delay else ()
    promised = " ".join((within, *own))
    about = (str(traffic), *known, *shaped, *keyed, *several, *again, *late, promised)
    return ", ".join((*about, *_too_large(experiment)))


def _too_large(experiment: Experiment) -> tuple[str, ...]:
    """How many requests no batch may hold: a service refuses them, a sidecar cuts them."""
    sizes, most = experiment.sizes, experiment.limits.max_batch_size
    number = 0 if sizes is None else sum(size > most for size in sizes)
    if not number:
        return ()
    return (f"{number:,} requests refused for more than {most} items (a sidecar would cut them)",)


def _costed(traffic: Traffic, experiment: Experiment) -> str | None:
    """What the costs are, and what the dispatchers know of them."""
    if traffic.costed is None:
        return None
    told = experiment.limits.costs
    known = "hidden" if told is None else "padded" if told.padded else "summed"
    return f"{traffic.costed} ({known})"


def _per_second(rate: float) -> str:
    return f"{rate:{',.0f' if rate >= 10 else '.2g'}} request{'' if rate == 1 else 's'}/s"
