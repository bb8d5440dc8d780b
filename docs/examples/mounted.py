"""A model that batches, mounted in an application of FastAPI.

$ uvicorn mounted:app
$ curl -d 21 http://127.0.0.1:8000/models/double
42
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from adaptive_batching import Service

service = Service()


@service.endpoint("/double", max_latency=0.1, max_batch_size=64)
class Double:
    def __call__(self, numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with service.running_workers():
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/models", service)


@app.get("/")
async def about() -> dict[str, str]:
    """What else the application does."""
    return {"models": "/models/double"}
