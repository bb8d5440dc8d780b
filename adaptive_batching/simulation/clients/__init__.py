"""Clients that react to their answers, and what tells clients apart.

It imports the core and the event queue.
"""
