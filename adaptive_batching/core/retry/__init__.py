"""Runs of a batch after a failure: bisection, the retry budget, limits of batch size.

It imports jobs, costs and lines of durations; the scheduler imports it.
"""
