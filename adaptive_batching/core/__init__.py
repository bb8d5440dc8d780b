"""Decides when a batch leaves. No clock, no loop, no I/O: `now` is always an argument."""

from adaptive_batching.core.allowed import next_allowed
from adaptive_batching.core.costs import Costs
from adaptive_batching.core.estimators.cost_latency import CostLatency
from adaptive_batching.core.estimators.latency import LinearLatency
from adaptive_batching.core.estimators.queueing_delay import QueueingDelay
from adaptive_batching.core.fairness.fairness import Fairness
from adaptive_batching.core.job import Batch, BoundedKey, Job, Outcome, Priority, Reason, TenantJob
from adaptive_batching.core.job_class import JobClass
from adaptive_batching.core.load import Load
from adaptive_batching.core.policies import PolicyLike, make_policy
from adaptive_batching.core.policy import (
    Decision,
    Dispatch,
    Hold,
    Limits,
    Policy,
    Shed,
    ShedReason,
    Situation,
    Welcome,
)
from adaptive_batching.core.records import RECORDING, BatchRecord, JobOutcome, JobRecord
from adaptive_batching.core.retry.bisection import Verdict
from adaptive_batching.core.scheduler import Scheduler
from adaptive_batching.core.tandem import Station, Tandem
from adaptive_batching.core.worker import Worker

__all__ = [
    "RECORDING",
    "Batch",
    "BatchRecord",
    "BoundedKey",
    "CostLatency",
    "Costs",
    "Decision",
    "Dispatch",
    "Fairness",
    "Hold",
    "Job",
    "JobClass",
    "JobOutcome",
    "JobRecord",
    "Limits",
    "LinearLatency",
    "Load",
    "Outcome",
    "Policy",
    "PolicyLike",
    "Priority",
    "QueueingDelay",
    "Reason",
    "Scheduler",
    "Shed",
    "ShedReason",
    "Situation",
    "Station",
    "Tandem",
    "TenantJob",
    "Verdict",
    "Welcome",
    "Worker",
    "make_policy",
    "next_allowed",
]
