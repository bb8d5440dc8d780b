"""Synthetic workers: how long a batch takes, and what befalls them in a day.

It imports the core only.
"""
