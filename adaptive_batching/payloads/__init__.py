"""What the body of a request or of its answer holds: its codec, its type, its schema."""

import adaptive_batching.payloads.type_pickle  # noqa: F401  whatever is declared has to travel
