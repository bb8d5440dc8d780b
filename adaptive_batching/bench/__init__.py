"""What batching costs, as ratios to bare baselines measured in the same run."""
