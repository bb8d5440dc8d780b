"""The socket that external workers connect to: who may, and what it replaces."""

import asyncio
import fcntl
import os
import socket
import stat
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adaptive_batching.errors import WorkerStartError
from adaptive_batching.workers.elsewhere import ExternalWorkers
from adaptive_batching.workers.external.named_socket import NamedSocket, peer_of
from tests.workers.external.guest import HELLO, Guest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sock"


@pytest.fixture
def opened(path):
    """Open a socket under the path, and close it afterwards."""
    listening = []

    def listen():
        listening.append(NamedSocket(str(path)))
        return listening[-1]

    yield listen
    for each in listening:
        each.close()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_whatever_the_umask(path, opened):
    """Nobody else may connect, and it is gone once it is closed."""
    umask = os.umask(0)
    try:
        listening = opened()
    finally:
        os.umask(umask)
    assert mode(path) == 0o600
    listening.close()
    assert not path.exists()


def test_the_kernel_says_who_connects(path, opened):
    """Process and user."""
    listening = opened()
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        with listening.socket.accept()[0] as accepted:
            assert peer_of(accepted) == (os.getpid(), os.geteuid())


def test_a_dead_one_is_replaced(path, opened):
    """Whoever listened was killed; nobody was there to remove it."""
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()
    listening = opened()
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        with listening.socket.accept()[0] as accepted:
            assert peer_of(accepted) == (os.getpid(), os.geteuid())


@pytest.mark.parametrize("crowded", [False, True], ids=["idle", "too busy to accept"])
def test_a_live_one_is_not_replaced(path, opened, crowded):
    """Whoever listens goes on."""
    with socket.socket(socket.AF_UNIX) as living, socket.socket(socket.AF_UNIX) as caller:
        living.bind(str(path))
        living.listen(0)
        if crowded:
            caller.connect(str(path))
        with pytest.raises(
            WorkerStartError, match=r"can't listen on unix:.*: another process does"
        ):
            opened()
        assert path.exists()


def test_a_successor_is_not_removed(path, opened):
    """What has the name by now is somebody else's."""
    listening = opened()
    path.unlink()
    with socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(path))
        listening.close()
        assert path.exists()


def test_a_file_is_not_replaced(path, opened):
    """It may be somebody's work."""
    path.write_text("precious")
    with pytest.raises(WorkerStartError, match=r"nothing or a socket at .*another kind of file"):
        opened()
    assert path.read_text() == "precious"


def test_a_directory_that_somebody_keeps_locked(path, opened, monkeypatch):
    """Anybody may, and it is no reason to wait for ever."""
    monkeypatch.setattr("adaptive_batching.workers.external.named_socket._PATIENCE", 0.02)
    handle = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(WorkerStartError, match="another process holds a lock on it"):
        opened()
    os.close(handle)
    opened()


def test_a_relative_path(path, opened, monkeypatch, tmp_path_factory):
    """It is found again after the program has gone elsewhere, and may be short for a long one."""
    deep = path.parent / ("d" * 100)
    deep.mkdir()
    monkeypatch.chdir(deep)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind("s")
    listening = NamedSocket("s")
    monkeypatch.chdir(path.parent)
    assert (deep / "s").exists()
    listening.close()
    assert not (deep / "s").exists()


def test_those_who_start_together_do_not_remove_each_other(path):
    """Of many that find a dead socket, one replaces it; the others are told that it is taken."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    start = threading.Barrier(8)

    def listen(_):
        start.wait()
        try:
            return NamedSocket(str(path))
        except WorkerStartError as error:
            return str(error)

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(listen, range(8)))
    (winner,) = [each for each in outcomes if isinstance(each, NamedSocket)]
    assert all("another process does" in each for each in outcomes if each is not winner)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
    winner.close()


def test_a_directory_that_is_not_there(path):
    """The operating system's own words."""
    with pytest.raises(WorkerStartError, match=r"can't listen on unix:.*/s: No such file"):
        NamedSocket(f"{path}/s")


@pytest.mark.parametrize("path", ["", "x" * 108, "a\0b"], ids=["empty", "long", "zero"])
def test_paths_that_no_socket_can_have(path):
    """They are told where they are written."""
    with pytest.raises(ValueError, match="expected the path of a socket, of 1 to 107 bytes"):
        ExternalWorkers(path)


@pytest.fixture
def public():
    """A directory that everybody may enter."""
    with tempfile.TemporaryDirectory() as directory:
        public = Path(directory)
        public.chmod(0o755)
        yield public


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_other_users_are_let_in_only_if_they_are_named(scene, public):
    """The file's mode is not all that protects it."""
    scene.path = public / "model.sock"
    workers = await scene.listen(uids=[12345])
    assert mode(scene.path) == 0o666
    welcome, stranger = [await as_user(uid, scene.path) for uid in (12345, 12346)]
    assert await stranger.refused() == "runs as user 12346, which may not connect"
    welcome.say(HELLO)
    welcome.frame(b"")
    await scene.changes.until(lambda: workers.health.alive == 1)
    for guest in (welcome, stranger):
        guest.close()


async def as_user(uid, path):
    """Connect as somebody else; nothing else happens meanwhile."""
    caller = socket.socket(socket.AF_UNIX)
    os.seteuid(uid)
    try:
        caller.connect(str(path))
    finally:
        os.seteuid(0)
    caller.settimeout(0)
    return Guest(*await asyncio.open_unix_connection(sock=caller))


def test_a_link_that_takes_the_place_of_a_socket(tmp_path, monkeypatch):
    """The file that it leads to keeps its mode, where others may replace what we have made."""
    path, precious = tmp_path / "s", tmp_path / "precious"
    precious.touch(0o600)

    class Replaced(socket.socket):
        def bind(self, address):
            super().bind(address)
            path.unlink()
            path.symlink_to(precious)

    monkeypatch.setattr(socket, "socket", Replaced)
    with pytest.raises(WorkerStartError, match="another file took its place"):
        NamedSocket(str(path), shared=True)
    assert precious.stat().st_mode & 0o777 == 0o600
