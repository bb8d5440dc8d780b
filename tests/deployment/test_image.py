"""The image of docs/deployment/Dockerfile, made on this machine; only with -m image."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.deployment.dockerfile import PATH, Stage, built, instructions
from tests.programs import told_to_end

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docs" / "deployment" / "Dockerfile"
BASE = 128  # MB: Debian with Python and nothing else

SERVICE = """
from adaptive_batching import Service
service = Service()

@service.endpoint("/double", max_batch_size=64, workers=1)
class Double:
    def __call__(self, numbers: list[float]) -> list[float]:
        return [2 * number for number in numbers]
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Stage:
    probe = ["unshare", "--mount", "true"]
    if os.geteuid() or subprocess.run(probe, check=False).returncode:
        pytest.skip("only root can mount, and not in every container")
    if not shutil.which("pip", path=PATH):
        pytest.skip("no pip here")
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)  # its user reads it
    folder.parent.chmod(0o755)
    return built(DOCKERFILE, ROOT, folder)


def test_only_what_it_needs_is_in_its_context():
    """Of a clone the Dockerfile copies nothing that its .dockerignore leaves out."""
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    copied = [
        source
        for word, rest in instructions(DOCKERFILE.read_text())
        for source in rest.split()[:-1]
        if word == "COPY" and not rest.startswith("--from=")
    ]
    assert sorted(copied) == sorted(sent)


@pytest.mark.image
def test_it_is_small(image):
    """At most 350 MB, SciPy among them."""
    size = sum(each.lstat().st_size for each in image.files.rglob("*"))
    assert (image.files / "opt/venv/bin/adaptive-batching").exists()
    assert BASE + size / 1e6 <= 350


@pytest.mark.image
async def test_it_answers(image, tmp_path, unused_tcp_port_factory):
    """Its files are read-only, its user is nobody in particular, and it is healthy."""
    (tmp_path / "doubling.py").write_text(SERVICE)
    tmp_path.chmod(0o755)
    port, admin = unused_tcp_port_factory(), unused_tcp_port_factory()
    image.environment["ADAPTIVE_BATCHING_ADMIN_PORT"] = str(admin)
    serve = (*image.said["ENTRYPOINT"], "serve", "doubling:service", f"--port={port}")
    arguments, mounts = image.command(*serve, app=tmp_path)
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*arguments, env=mounts, stdout=pipe)
    async with told_to_end(server), aiohttp.ClientSession() as session:
        assert server.stdout is not None
        assert f"http://0.0.0.0:{port}/double" in (await server.stdout.readline()).decode()
        async with session.post(f"http://127.0.0.1:{port}/double", json=21) as answer:
            assert (answer.status, await answer.json()) == (200, 42)
        assert psutil.Process(server.pid).uids().real == 10001
        healthy = await asyncio.to_thread(image.run, *image.said["HEALTHCHECK"], app=tmp_path)
        assert healthy.returncode == 0, healthy.stderr
