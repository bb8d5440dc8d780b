"""Runs of a batch after a failure: bisection, the retry budget, limits of batch size.

It imports jobs and records; the scheduler imports it.
"""
