"""What operators see: health, recent batches, the dashboard, the OpenAPI document.

It imports the service, the sidecar and `http`.
"""
