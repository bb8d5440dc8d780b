"""A handler where it runs: how it is found, built, warmed up and called with a batch.

It imports errors and, for annotations, the core; no other room of the workers.
"""
