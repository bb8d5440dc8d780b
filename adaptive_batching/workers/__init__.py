"""Run a batch somewhere: on the loop, in threads, in pinned processes."""
