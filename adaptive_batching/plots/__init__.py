"""Reports with figures; needs the extra `plot`."""
