"""The service: endpoints of our own, whose items share batches.

It imports `http`, and nothing of the sidecar.
"""
