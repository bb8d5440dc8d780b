"""Workers that connect to this program and pull batches.

It imports the interface of workers and messages; `python -m adaptive_batching.workers.child` joins.
"""
