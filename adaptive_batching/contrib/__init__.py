"""What runs in somebody else's program, in front of or behind ours.

It imports errors, wire and batching; a framework is imported inside functions.
"""
