"""Stages in sequence, each with its own workers and its own batches."""

from adaptive_batching.pipeline.pipeline import Pipeline
from adaptive_batching.pipeline.stage import Stage
from adaptive_batching.pipeline.stats import PipelineStats

__all__ = ["Pipeline", "PipelineStats", "Stage"]
