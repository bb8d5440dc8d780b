"""Experiments and what they show: replications, comparisons, capacity, reports.

It imports the kernel, traffic, clients and servers.
"""
