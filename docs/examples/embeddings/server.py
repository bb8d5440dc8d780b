"""A model server that knows nothing of batching: OpenAI's /v1/embeddings, one call at a time.

Its model is small and needs no download: words are hashed into a sparse vector, which a fixed
random projection makes dense.
"""

import asyncio
import hashlib
import sys

import numpy as np
from aiohttp import web

WORDS, DIMENSIONS = 2**14, 64
PROJECTION = np.random.default_rng(0).standard_normal((WORDS, DIMENSIONS)).astype(np.float32)


def embed(texts: list[str]) -> np.ndarray:
    """Rows of length 1, by the words in each text."""
    counts = np.zeros((len(texts), WORDS), np.float32)
    for row, text in zip(counts, texts, strict=True):
        for word in text.lower().split():
            row[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % WORDS] += 1
    dense = counts @ PROJECTION
    return dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)


async def embeddings(request: web.Request) -> web.Response:
    """As OpenAI's API answers, for a text or a list of texts."""
    body = await request.json()
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    async with request.app[MODEL]:  # one call at a time, as on a GPU
        rows = await asyncio.to_thread(embed, texts)
    data = [
        {"object": "embedding", "index": index, "embedding": row.tolist()}
        for index, row in enumerate(rows)
    ]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return web.json_response(
        {"object": "list", "data": data, "model": body["model"], "usage": usage}
    )


MODEL = web.AppKey("model", asyncio.Lock)

if __name__ == "__main__":
    app = web.Application()
    app[MODEL] = asyncio.Lock()
    app.router.add_post("/v1/embeddings", embeddings)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]))
