"""A real model behind a real service, before and after batching."""
