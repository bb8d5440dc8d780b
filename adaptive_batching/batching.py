"""@batched."""
