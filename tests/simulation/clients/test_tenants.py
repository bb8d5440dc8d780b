"""Whose requests come in simulated traffic, and how each tenant fares."""

from collections import Counter
from itertools import islice

import pytest

from adaptive_batching.core import Limits, Priority
from adaptive_batching.simulation import Experiment, Retries, Server, poisson
from adaptive_batching.simulation.clients.tenants import Crowd, TenantTraffic, parse_tenants

SERVER = Server(5e-3, 0.05e-3)
CAPACITY = 64 / 8.2e-3  # requests a second
CROWD = Crowd((TenantTraffic("flood", 9.0), TenantTraffic("quiet", 1.0)))


def test_each_sends_his_part_of_the_traffic() -> None:
    """The same lots each time, and the same share of high priority for each."""
    crowd = Crowd(CROWD.tenants, high=0.2)
    claims = list(islice(crowd, 10_000))
    assert claims == list(islice(crowd, 10_000))
    counted = Counter(claims)
    quiet = sum(number for claim, number in counted.items() if claim.tenant == "quiet")
    urgent = sum(number for claim, number in counted.items() if claim.priority is Priority.HIGH)
    assert quiet == pytest.approx(1000, rel=0.1)
    assert urgent == pytest.approx(2000, rel=0.1)


@pytest.mark.parametrize("delay", [0.0, 1e-3])
@pytest.mark.parametrize("retries", [None, Retries(2)])
def test_a_flood_is_refused_and_its_victims_are_not(delay: float, retries: Retries | None) -> None:
    """Whether or not everything is noticed late, and clients send again."""
    times = poisson(3 * CAPACITY, 0.5, seed=1)
    experiment = Experiment(
        times,
        SERVER,
        Limits(64, 0.1, 1024),
        claims=CROWD,
        fairness=CROWD.fairness(),
        loop_delay=delay,
        retries=retries,
    )
    fared = experiment.run("cork").tenants
    assert fared is not None
    assert fared["quiet"].goodput > 0.99
    assert fared["flood"].goodput < 0.5
    assert sum(each.requests for each in fared.values()) == len(times)


def test_of_some_requests_each_stays_its_tenants() -> None:
    """As when a limit is looked for."""
    times = poisson(CAPACITY / 2, 0.5, seed=1)
    experiment = Experiment(times, SERVER, Limits(64), claims=CROWD, fairness=CROWD.fairness())
    fared = experiment.run("greedy").tenants
    assert fared is not None
    some = [number for number, claim in zip(range(len(times)), CROWD, strict=False)
            if claim.tenant == "quiet"]  # fmt: skip
    only = experiment.only(some).run("greedy").tenants  # type: ignore[arg-type]
    assert only is not None
    assert set(only) == {"quiet"}
    assert only["quiet"].requests == fared["quiet"].requests


def test_tenants_as_they_are_typed() -> None:
    """Names, parts, weights."""
    crowd = parse_tenants("gold:1:3,other:2")
    assert crowd.tenants == (TenantTraffic("gold", 1.0, 3.0), TenantTraffic("other", 2.0))
    assert crowd.fairness(0.5).weights == {"gold": 3.0, "other": 1.0}
    assert str(crowd) == "2 tenants"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("flood", "expected a tenant such as flood:0.9"),
        ("flood:1:2:3", "expected a tenant such as"),
        (":1", "expected a name before each part"),
        ("flood:much", "expected a tenant such as .* got .flood:much"),
        ("flood:0", "expected positive numbers for flood"),
        ("flood:1,flood:2", "expected different names"),
    ],
)
def test_tenants_that_are_none(text: str, complaint: str) -> None:
    """What is wrong is said."""
    with pytest.raises(ValueError, match=complaint):
        parse_tenants(text)
