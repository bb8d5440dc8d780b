"""What the body of a request or of its answer holds: its codec, its type, its schema."""
