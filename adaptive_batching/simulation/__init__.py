"""Drives the production scheduler through virtual time."""
