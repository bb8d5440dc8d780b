"""Several processes that speak HTTP for one service, whose batches are formed in one place."""
