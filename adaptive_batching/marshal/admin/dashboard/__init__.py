"""One page that shows operators whether the SLO is met, and why batches leave."""
