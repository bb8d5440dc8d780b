"""What happens now and happened in the last two minutes: numbers for a page and a terminal."""

from adaptive_batching.instrumentation.live.messages import EndpointView, Run, Second, View
from adaptive_batching.instrumentation.live.view import LiveView

__all__ = ["EndpointView", "LiveView", "Run", "Second", "View"]
