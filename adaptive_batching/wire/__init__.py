"""Bytes to items and back: pure functions, one format a file."""
