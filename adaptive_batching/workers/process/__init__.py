"""One worker process: how it starts, what it is sent, what it answers.

It imports the interface of workers and frames; pools import it.
"""
