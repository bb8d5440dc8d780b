"""One page that shows operators whether the promise is kept, and why batches leave."""
