"""How good any policy could be: a clairvoyant, and the optimum of a queue.

It imports studies and what they are made of.
"""
