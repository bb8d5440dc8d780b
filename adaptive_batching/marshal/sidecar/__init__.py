"""The sidecar: a proxy before model servers that lets requests share batches.

It imports `http` and `upstream`, and nothing of the service.
"""
