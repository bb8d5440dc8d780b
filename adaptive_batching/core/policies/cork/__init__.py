"""The default policy, and what it asks about one situation.

It imports the core's heart and its estimators, no other policy but `shedding`.
"""
