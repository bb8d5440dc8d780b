"""Run asynchronous tests without a leak that is not ours."""

import asyncio

# Python 3.11 makes a loop when pytest-asyncio first asks for one, and nobody ever closes it
asyncio.set_event_loop(None)
