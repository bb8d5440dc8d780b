"""For an application of FastAPI, which is one of Starlette."""

from adaptive_batching.contrib.starlette import install, lifespan

__all__ = ["install", "lifespan"]
