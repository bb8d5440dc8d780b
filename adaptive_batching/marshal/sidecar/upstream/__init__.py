"""The client side of the sidecar: model servers, their addresses, their health.

It imports workers, wire and the core, and nothing of the sidecar's other files.
"""
