"""Tenants, priorities and the queue that is fair to them.

It imports jobs and estimators; the scheduler and the queues import it.
"""
