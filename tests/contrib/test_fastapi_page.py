"""The program of docs/how-to/build/fastapi.md, under uvicorn in a process of its own."""

import asyncio
import io
import re
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "build" / "fastapi.md"
PROGRAM = re.compile(r"^```python\n# app.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGES, DIGITS = load_digits(return_X_y=True)
COMMAND = (sys.executable, "-m", "uvicorn", "app:app", "--port", "0", "--no-access-log")


@pytest.fixture
def folder(tmp_path):
    """Where the reader has saved `app.py`; of empty pictures a batch takes long."""
    program, call = PROGRAM.search(PAGE.read_text())[1], "        return self.model"
    assert call in program
    pause = "        __import__('time').sleep(0.0 if any(images[0]) else 0.4)\n"
    (tmp_path / "app.py").write_text(program.replace(call, pause + call))
    return tmp_path


@asynccontextmanager
async def served(folder):
    """The address of the program, and in the end what it said; uvicorn ends by the signal."""
    server = await asyncio.create_subprocess_exec(*COMMAND, cwd=folder, stderr=PIPE)
    said = bytearray()
    try:
        while (found := re.search(rb"running on (http://\S+)", said)) is None:
            said += await server.stderr.readline()
        yield found[1].decode(), said
        server.terminate()
        said += await server.stderr.read()
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


async def test_the_program_answers_and_withstands_a_flood(folder):
    """Bodies, keys and uploads as FastAPI has them; too many are told 503 or 504, and no more."""
    key, unlimited = {"X-API-Key": "secret"}, aiohttp.TCPConnector(limit=0)
    async with (
        served(folder) as (url, said),
        aiohttp.ClientSession(url, connector=unlimited) as session,
    ):
        await ask(session, key)
        empty = {"json": {"pixels": [0.0] * 64}, "headers": key}

        async def posted():
            async with session.post("/digit", **empty) as reply:
                return reply.status, reply.headers

        refused = []
        while not refused:  # at first the model isn't known to be slow, later the flood may be
            replies = await asyncio.gather(*(posted() for _ in range(100)))
            assert {status for status, _ in replies} <= {200, 503, 504}
            refused = [headers for status, headers in replies if status == 503]
        assert all(int(headers["Retry-After"]) >= 1 for headers in refused)
    assert b"Application shutdown complete" in said
    assert b"Traceback" not in said


async def ask(session, key):
    """Send each route what it takes, and what it does not."""

    async def send(path, json=None, headers=key, file=None):
        while True:
            data = None if file is None else {"file": io.BytesIO(file)}
            async with session.post(path, headers=headers, json=json, data=data) as reply:
                if reply.status not in {503, 504}:  # the machine may be busy
                    return reply.status, await reply.json()

    seven, several = {"pixels": IMAGES[7].tolist()}, [{"pixels": x} for x in IMAGES[:9].tolist()]
    assert await send("/digit", seven) == (200, 7)
    assert await send("/digits", several) == (200, DIGITS[:9].tolist())
    picture, out = (IMAGES[7].reshape(8, 8) * 15).astype(np.uint8), io.BytesIO()
    Image.fromarray(picture).save(out, "PNG")
    assert await send("/picture", file=out.getvalue()) == (200, 7)
    assert (await send("/digit", seven, headers={"X-API-Key": "wrong"}))[0] == 401
    assert (await send("/digit", {"pixels": [1.0]}))[0] == 422
