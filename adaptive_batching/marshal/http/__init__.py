"""HTTP: connections, requests, responses, limits, errors.

It knows nothing of batches, services or the sidecar.
"""
