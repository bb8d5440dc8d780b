"""What runs in another program, in front of or behind ours.

It imports errors, wire and batching; a framework is imported inside functions.
"""
