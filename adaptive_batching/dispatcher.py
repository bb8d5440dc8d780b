"""Drives a scheduler on an asyncio loop."""
