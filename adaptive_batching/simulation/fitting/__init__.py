"""Latency models that are fitted to recordings.

It imports servers and traces.
"""
