"""What happens now and happened in the last two minutes: numbers for a page and a terminal."""

from adaptive_batching.instrumentation.live.messages import EndpointView, View, WorkerView
from adaptive_batching.instrumentation.live.second import Second
from adaptive_batching.instrumentation.live.slo import Slo, SloState
from adaptive_batching.instrumentation.live.view import LiveView

__all__ = ["EndpointView", "LiveView", "Second", "Slo", "SloState", "View", "WorkerView"]
