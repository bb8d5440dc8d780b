"""What operators look at: leaf modules that consume records."""
