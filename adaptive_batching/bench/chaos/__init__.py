"""Workers that are killed and stopped at random while requests come."""
