"""Several workers that are replaced when they die or grow old.

It imports the interface of workers; what starts a worker is given to it.
"""
