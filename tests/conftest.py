"""For all tests."""

import asyncio

# Before Python 3.14, pytest-asyncio's first look at the current loop makes one that nobody ever
# closes, and the collector complains in whatever test it runs; after this, that look finds none.
asyncio.set_event_loop(None)
