"""Settings: TOML files, checked, and read again when they change.

It imports the service, the sidecar and `http`.
"""
