"""The socket's file: its mode, its peers, what an earlier server left, long paths."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from agentserver.gateways import top


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


@contextmanager
def listen_place(path):
    found, place = top.listen_for_readers(path)
    with found:
        yield found, place


def test_the_socket_is_its_owners_alone_from_the_beginning(path):
    os.umask(before := os.umask(0))
    with listen_place(path) as (_, place):
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert list(path.parent.iterdir()) == [place]
    assert before == os.umask(before)


def test_the_socket_of_a_killed_server_is_no_server_and_is_removed(path):
    with listen_place(path) as (_, place):
        left = place.rename(top.find_socket_path(path, 1))
    assert top.find_servers(path) == {}
    with listen_place(path) as (_, place):
        assert list(path.parent.iterdir()) == [place]
        assert not left.exists()


def test_the_socket_of_a_running_server_is_not_removed(path):
    with listen_place(path) as (_, place):
        place.rename(other := top.find_socket_path(path, 1))
        with listen_place(path):
            found = top.find_servers(path)
            assert sorted(found) == sorted([1, os.getpid()])
            for peer in found.values():
                peer.close()
            assert other.exists()


def test_a_server_with_the_process_id_of_another_keeps_off_its_socket(path):
    with listen_place(path) as (_, place):
        with pytest.raises(OSError, match="another server listens here"):
            top.listen_for_readers(path)
        (peer,) = top.find_servers(path).values()
        peer.close()
        assert place.exists()


@pytest.mark.parametrize("length", [1, 120, 250])
def test_long_paths_are_no_obstacle(tmp_path, length):
    folder = tmp_path / ("d" * 120) / ("e" * 120)
    folder.mkdir(parents=True)
    path = folder / ("j" * length)
    with listen_place(path) as (_, place):
        (peer,) = top.find_servers(path).values()
        with peer:
            assert place.parent == folder


def test_files_other_than_server_sockets_are_not_removed(path):
    others = [path.with_name(name) for name in ("journal.sqlite.top", "journal.sqlite.x.top", "other.1.top")]
    for other in others:
        other.write_text("mine")
    with listen_place(path) as (_, place):
        assert sorted(path.parent.iterdir()) == sorted([*others, place])


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
        with listen_place(folder / "j") as (found, path):
            done = subprocess.run(
                [sys.executable, "-c", CONNECT, path], capture_output=True, text=True, check=False
            )
            assert "PermissionError" in done.stderr
            path.chmod(0o666)  # as root may do by mistake: who connects is looked at as well
            subprocess.run([sys.executable, "-c", CONNECT, path], check=True)
            found.setblocking(True)
            peer, _ = found.accept()
            with peer:
                assert not top.own(peer)


def test_the_same_user_is_taken():
    one, other = socket.socketpair()
    with one, other:
        assert top.own(one)
