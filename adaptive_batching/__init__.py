"""Turns single requests into batches for models, and learns by itself how long to wait."""
