"""Drives the scheduler on an asyncio loop: one item in, its own result out."""

from adaptive_batching.dispatcher.dispatcher import Dispatcher
from adaptive_batching.dispatcher.ledger import Observer, Stats

__all__ = ["Dispatcher", "Observer", "Stats"]
