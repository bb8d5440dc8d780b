"""What the scheduler learns: arrivals, latencies and delays.

It imports nothing of the library but jobs and units.
"""
