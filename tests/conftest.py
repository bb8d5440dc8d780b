"""For all tests."""

import asyncio

from hypothesis import HealthCheck, settings

# Before Python 3.14, pytest-asyncio's first look at the current loop makes one that nobody ever
# closes, and the collector complains in whatever test it runs; after this, that look finds none.
asyncio.set_event_loop(None)

# What an example takes says how busy the machine is: pytest's own timeout ends what hangs.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
