"""The socket's file: its mode, its peers, what an earlier server left, long paths."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys

import pytest

from agentserver.gateways import top


@pytest.fixture
def path(tmp_path):
    return top.socket_path(tmp_path / "journal.sqlite")


def test_the_socket_is_its_owners_alone_from_the_beginning(path):
    os.umask(before := os.umask(0))
    with top.listen_at(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(path.parent.iterdir()) == [path]
    assert before == os.umask(before)


def test_what_a_killed_server_left_is_replaced(path):
    top.listen_at(path).close()
    assert path.exists()
    with pytest.raises(ConnectionRefusedError):
        top.connect(path)
    with top.listen_at(path), top.connect(path):
        pass


def test_a_server_that_listens_keeps_its_place(path):
    with top.listen_at(path), pytest.raises(top.TakenError, match="another server is followed here"):
        top.listen_at(path)


def test_a_server_removes_its_own_socket_alone(path):
    with top.listen_at(path):
        first = top.mark(path)
    with top.listen_at(path):
        top.remove(path, first)
        assert path.exists()
        top.remove(path, top.mark(path))
        assert not path.exists()
        top.remove(path, None)


@pytest.mark.parametrize("length", [1, 120, 250])
def test_long_paths_are_no_obstacle(tmp_path, length):
    folder = tmp_path / ("d" * 120) / ("e" * 120)
    folder.mkdir(parents=True)
    path = top.socket_path(folder / ("j" * length))
    with top.listen_at(path), top.connect(path):
        assert path.parent == folder


def test_what_is_no_socket_is_left_alone(path):
    path.write_text("mine")
    with pytest.raises(OSError):
        top.listen_at(path)
    assert path.read_text() == "mine"


CONNECT = (
    "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_refused(tmp_path_factory):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = top.socket_path(folder / "j")
        with top.listen_at(path) as listening:
            done = subprocess.run(
                [sys.executable, "-c", CONNECT, path], capture_output=True, text=True, check=False
            )
            assert "PermissionError" in done.stderr
            path.chmod(0o666)  # as root may do by mistake: who connects is looked at as well
            subprocess.run([sys.executable, "-c", CONNECT, path], check=True)
            listening.setblocking(True)
            peer, _ = listening.accept()
            with peer:
                assert not top.own(peer)


def test_the_same_user_is_taken():
    one, other = socket.socketpair()
    with one, other:
        assert top.own(one)
