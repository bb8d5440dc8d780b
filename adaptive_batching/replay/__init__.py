"""One traffic live and in virtual time: how far the simulator can be believed."""

from adaptive_batching.replay.fidelity import Comparison, compare
from adaptive_batching.replay.live import Conditions, Measured, send
from adaptive_batching.replay.overhead import Overhead

__all__ = ["Comparison", "Conditions", "Measured", "Overhead", "compare", "send"]
