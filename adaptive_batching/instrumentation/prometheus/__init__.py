"""Metrics of a service or a sidecar, for Prometheus.

Everything is read when it is asked for; only histograms are filled in between, once a batch. The
values of all labels come from the configuration or from closed sets.
"""

from adaptive_batching.instrumentation.prometheus.metrics import Metrics

__all__ = ["Metrics"]
