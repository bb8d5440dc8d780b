"""The examples of the documentation, served and asked as their pages say."""

import asyncio
import base64
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
PROGRAM = (sys.executable, "-m", "adaptive_batching")


@contextmanager
def started(folder: Path, *command: str) -> Iterator[str]:
    """A server's address, as long as the block runs; the first line that it prints says where."""
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout:
        try:
            line = server.stdout.readline()
            yield next(word for word in line.split() if word.startswith("http"))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of an example."""
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / request.param))


async def ask(url: str, bodies: list[object]) -> list[tuple[int, Any]]:
    """Status and answer of each, all at once."""
    async with aiohttp.ClientSession() as session:

        async def one(body: object) -> tuple[int, Any]:
            async with session.post(url, json=body) as reply:
                return reply.status, await reply.json()

        return await asyncio.gather(*map(one, bodies))


def check_digits(answers: list[tuple[int, Any]], digits: list[int]) -> None:
    """See that each request has its own digit; a busy machine may be too slow for all at once."""
    pairs = zip(answers, digits, strict=True)
    answered = [(got, digit) for (status, got), digit in pairs if status == 200]
    assert answered
    assert [got for got, _ in answered] == [digit for _, digit in answered]
    assert {status for status, _ in answers} <= {200, 503, 504}


@pytest.mark.parametrize("folder", ["digits"], indirect=True)
async def test_digits_are_read_and_an_image_of_another_size_fails_alone(folder: Path) -> None:
    """Its neighbours get their digits."""
    images, digits = load_digits(return_X_y=True)
    with started(folder, *PROGRAM, "serve", "app:service", "--port", "0") as url:
        answers = await ask(url, [*images[:20].tolist(), [1.0]])
    check_digits(answers[:-1], digits[:20].tolist())
    assert answers[-1][0] == 500


@pytest.mark.parametrize("folder", ["onnx_mlp"], indirect=True)
async def test_a_network_in_onnx_reads_digits(folder: Path) -> None:
    """Once its model has been made."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # else threads wait for each other, busily
    make = [sys.executable, "make_model.py"]
    maker = await asyncio.create_subprocess_exec(*make, cwd=folder, env=alone)
    assert await maker.wait() == 0
    images, digits = load_digits(return_X_y=True)
    with started(folder, *PROGRAM, "serve", "app:service", "--port", "0") as url:
        answers = await ask(url, images[:50].tolist())
    check_digits(answers, digits[:50].tolist())


@pytest.mark.parametrize("folder", ["text_encoder"], indirect=True)
async def test_texts_that_share_a_batch_have_the_vectors_that_they_have_alone(folder: Path) -> None:
    """Whatever was padded: within 1e-4, for texts of one to three hundred words."""
    maker = await asyncio.create_subprocess_exec(sys.executable, "make_model.py", cwd=folder)
    assert await maker.wait() == 0
    lengths = np.random.default_rng(1).lognormal(np.log(30), 1.0, 40).clip(1, 300).astype(int)
    texts: list[object] = [" ".join(f"w{n}" for n in range(length)) for length in lengths]
    with started(folder, *PROGRAM, "serve", "app:service", "--port", "0") as url:
        alone = [answer for text in texts[:12] for answer in await ask(url, [text])]
        together = await ask(url, texts)
    answered = 0
    for (status, vector), (before, same) in zip(together, alone, strict=False):
        assert before == 200
        if status == 200:  # a busy machine may be too slow for all forty at once
            answered += 1
            assert np.abs(np.array(vector) - np.array(same)).max() < 1e-4
    assert answered


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch, which is too large for CI")
@pytest.mark.parametrize("folder", ["torch_classifier"], indirect=True)
async def test_a_network_of_pytorch_reads_digits(folder: Path) -> None:
    """On the GPU if there is one; an image of another size is refused alone."""
    maker = await asyncio.create_subprocess_exec(sys.executable, "make_model.py", cwd=folder)
    assert await maker.wait() == 0
    images, digits = load_digits(return_X_y=True)
    with started(folder, *PROGRAM, "serve", "app:service", "--port", "0") as url:
        answers = await ask(url, [*images[:20].tolist(), [1.0]])
    assert [answer["digit"] for _, answer in answers[:-1]] == digits[:20].tolist()
    assert answers[-1][0] == 422


@pytest.mark.parametrize("folder", ["no_gain"], indirect=True)
async def test_passwords_are_stretched(folder: Path) -> None:
    """Equal ones alike, others not."""
    with started(folder, *PROGRAM, "serve", "app:service", "--port", "0") as url:
        (_, one), (_, same), (_, other) = await ask(url, ["a", "a", "b"])
    assert one == same != other


@pytest.mark.parametrize("folder", ["images"], indirect=True)
async def test_images_go_through_three_stages(folder: Path) -> None:
    """A plain picture stays as it is, and what is no image is told so."""
    out = io.BytesIO()
    Image.new("L", (64, 64), 77).save(out, "PNG")
    picture = base64.b64encode(out.getvalue()).decode()
    nothing = base64.b64encode(b"no picture").decode()
    with started(folder, *PROGRAM, "serve", "app:service", "--port", "0") as url:
        await ask(url, [nothing])  # Pillow loads all that it has before it gives up for once
        (status, answer), (refused, _) = await ask(url, [picture, nothing])
    assert (status, refused) == (200, 500)
    sharpened = Image.open(io.BytesIO(base64.b64decode(str(answer))))
    assert (np.asarray(sharpened) == 77).all()


@pytest.mark.parametrize("folder", ["embeddings"], indirect=True)
async def test_embeddings_behind_the_sidecar_are_those_of_the_server(
    folder: Path, unused_tcp_port: int
) -> None:
    """Texts of several clients share batches, and each gets what it would have got alone."""
    server = f"http://127.0.0.1:{unused_tcp_port}"
    sidecar = (
        *PROGRAM, "sidecar", "--upstream", server, "--protocol", "openai-embeddings",
        "--max-latency", "30s", "--port", "0",
    )  # fmt: skip
    texts = ["to be", "or not to be", ["that", "is the question"]]
    bodies: list[object] = [{"model": "hashed", "input": text} for text in texts] * 5
    command = (sys.executable, "-u", "server.py", str(unused_tcp_port))
    with started(folder, *command), started(folder, *sidecar) as url:
        direct = await ask(f"{server}/v1/embeddings", bodies)
        merged = await ask(f"{url}/v1/embeddings", bodies)
    assert [status for status, _ in merged] == [200] * len(bodies)
    for (_, alone), (_, together) in zip(direct, merged, strict=True):
        for one, other in zip(alone["data"], together["data"], strict=True):
            assert one["index"] == other["index"]
            # a matrix product rounds differently with other rows beside it
            assert one["embedding"] == pytest.approx(other["embedding"], abs=1e-5)


def module_of(page: Path, folder: Path) -> Any:
    """The Python blocks of a page as a module, which lies in a folder that is searched."""
    blocks = Sybil([PythonCodeBlockParser()], path=str(page.parent)).parse(page).examples()
    (folder / f"{page.stem}_page.py").write_text("\n".join(block.parsed for block in blocks))
    return import_module(f"{page.stem}_page")


async def test_arrays_get_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each endpoint of the page on arrays answers an item as the page says."""
    (page,) = (EXAMPLES.parent / "how-to").rglob("arrays.md")
    monkeypatch.syspath_prepend(tmp_path)
    asked = {
        "/pictures": ([[1.0] * 28] * 28, 1.0),
        "/vectors": ([3.0, 4.0], 5.0),
        "/embed": ([2.0] + [0.0] * 511, [1.0] + [0.0] * 511),
        "/loudness": ([[1.0] * 80] * 3, 80.0),
        "/tokens": ({"ids": [4, 5], "mask": [1, 1]}, {"vector": [2.0], "tokens": 2}),
    }
    service = module_of(page, tmp_path).service
    assert {endpoint.path for endpoint in service} == asked.keys()
    async with service.running() as running:
        for path, (item, row) in asked.items():
            assert await ask(f"{running.url}{path}", [item]) == [(200, row)]


async def test_services_moved_from_other_servers_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the page on moving finds the pattern that was sent."""
    page = EXAMPLES.parent / "how-to" / "migrate" / "migrating.md"
    monkeypatch.syspath_prepend(tmp_path)
    moved = module_of(page, tmp_path)
    pattern = moved.Nearest().patterns[7].tolist()
    envelopes = {"litserve": ({"pixels": pattern}, {"digit": 7})}
    for name in ("service", "litserve", "torchserve", "mosec"):
        service = getattr(moved, name)
        (path,) = (endpoint.path for endpoint in service)
        body, answer = envelopes.get(name, (pattern, 7))
        async with service.running() as running:
            assert await ask(f"{running.url}{path}", [body]) == [(200, answer)]
