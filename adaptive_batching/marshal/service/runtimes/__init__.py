"""Endpoints at work: how a request's body joins a batch, and what its answer is made of.

It imports what was described of endpoints, and neither the router nor what serves them.
"""
