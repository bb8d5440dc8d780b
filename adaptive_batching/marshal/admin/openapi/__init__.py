"""What a service says of itself: an OpenAPI document, and a page for people made of it."""
