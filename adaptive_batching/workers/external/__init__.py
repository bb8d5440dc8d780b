"""Workers that connect to this program and pull batches.

It imports the interface of workers and messages; `adaptive_batching.external_worker` joins.
"""
