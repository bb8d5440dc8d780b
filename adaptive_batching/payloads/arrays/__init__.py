"""Arrays as items and results: their declared types, how a batch's are stacked, their `.npy` form.

It imports the words for clients' faults, and nothing else of the payloads.
"""
