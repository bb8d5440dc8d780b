"""Programs that benchmarks start in processes of their own: models, baselines, and what watches."""
