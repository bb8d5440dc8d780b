"""The engine of the simulation: events in virtual time, dispatchers, workers, histories.

It imports the core and what traffic, clients and servers are.
"""
