"""Environments of real servers: found where the machine gets its packages, or not waited for."""

import shutil
import socket
import zipfile
from contextlib import suppress

import pytest

from tests.real_servers import environments, registries
from tests.real_servers.environments import environment


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing is installed yet, and nothing is known of the registry."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setattr(environments, "_found_out_of_reach", [])


@pytest.fixture
def said_to_pip(tmp_path, monkeypatch):
    """Put settings into a configuration of pip's."""
    if shutil.which("pip") is None:
        pytest.skip("pip is not installed")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE", "PIP_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(registries, "_UV_FILES", ())
    file = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    return file.write_text


def test_a_mirror_that_only_pip_knows_is_used(said_to_pip, tmp_path):
    """As on a machine where the usual can't be installed here, but another one can."""
    project = tmp_path / "simple" / "tiny-server"
    project.mkdir(parents=True)
    wheel = project / "tiny_server-1.0-py3-none-any.whl"
    information = "tiny_server-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny_server.py", "")
        file.writestr(f"{information}/METADATA", "Name: tiny-server\nVersion: 1.0\n")
        file.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{information}/RECORD", "")
    (project / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    said_to_pip(f"[global]\nindex-url = {project.parent.as_uri()}\n")
    home = environment("tiny", ("tiny-server==1.0",))
    assert [*home.glob("lib/*/site-packages/tiny_server.py")]


def waiting_at(server):
    """Take the connections that wait to be accepted, and count them."""
    server.settimeout(0.0)
    connections = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            connections += 1
    return connections


def test_a_registry_that_does_not_answer_is_given_up_once(monkeypatch):
    """Its tests skip with the reason, and the next ones without waiting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        with pytest.raises(pytest.skip.Exception, match="can't be installed here"):
            environment("one", ("one==1",))
        assert waiting_at(silent) > 0
        with pytest.raises(pytest.skip.Exception, match="can't be installed here"):
            environment("another", ("another==1",))
        assert waiting_at(silent) == 0
