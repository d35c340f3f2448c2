"""The live view as a user has it: behind ``agentserver serve``, with tokens of ``agentserver principals``."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.gateways.live.conftest import ROOT
from tests.machine import HANGS

ORDER = '{"text": "Pay the invoice in mail 13 and tell Kim."}'
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}


def agentserver(folder, *words, **how):
    return subprocess.run(
        [sys.executable, "-m", "agentserver", "--log-level", "error", *words],
        cwd=folder, env=ENVIRON, capture_output=True, text=True, check=True, timeout=HANGS, **how,
    ).stdout.strip()  # fmt: skip


PREFIX = "/team/agents"


class _PrefixProxy(socketserver.StreamRequestHandler):
    """One request, passed on with its path below PREFIX; all others are not found."""

    def handle(self):
        lines = [self.rfile.readline(65_536)]
        while lines[-1].strip():
            lines.append(self.rfile.readline(65_536))
        if len(lines) == 1:  # a connection without a request
            return
        method, path, version = lines[0].split(b" ", 2)
        if not path.startswith(f"{PREFIX}/".encode()):
            self.wfile.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        named = [line for line in lines[1:-1] if not line.lower().startswith(b"connection:")]
        size = next(
            (int(line.split(b":")[1]) for line in named if line.lower().startswith(b"content-length:")), 0
        )
        head = [b" ".join((method, path[len(PREFIX) :], version)), *named, b"connection: close\r\n", b"\r\n"]
        with socket.create_connection(("127.0.0.1", self.server.door)) as door:
            door.sendall(b"".join(head) + self.rfile.read(size))
            with contextlib.suppress(ConnectionError):
                while data := self._receive(door):
                    self.wfile.write(data)

    def _receive(self, door):
        """What the door says next; nothing at its end, or when the client has left."""
        ready, _, _ = select.select([door, self.connection], [], [])
        return door.recv(65_536) if door in ready else b""


class PrefixProxy(socketserver.ThreadingTCPServer):
    """A proxy that serves a door below PREFIX and strips it, in threads."""

    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _PrefixProxy)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        with socket.create_server(("127.0.0.1", 0)) as free:  # a door behind a proxy does not print its port
            self.door = free.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


@pytest.fixture
def desk(tmp_path):
    """The example with its door open at a port of the system's choice; its address, and the tokens of an operator and a user."""
    with _serve_process(tmp_path, "bind: 127.0.0.1:0") as desk:
        yield desk


@contextlib.contextmanager
def _serve_process(tmp_path, http):
    for name in ("desks.py", "mails.json", "contacts.json", "plain.yaml"):
        (tmp_path / name).write_bytes((ROOT / "examples" / "desks" / name).read_bytes())
    file = tmp_path / "plain.yaml"
    file.write_text(f"{file.read_text()}\nhttp: {{{http}}}\n")
    organism = ("--organism", "plain.yaml")
    boss = agentserver(tmp_path, "principals", "add", "boss", "--role", "operator", *organism)
    amy = agentserver(tmp_path, "principals", "add", "amy", "--trust", "orders", "--may", "clerk", *organism)
    serving = subprocess.Popen(
        [sys.executable, "-m", "agentserver", "--log-level", "error", "serve", "plain.yaml"],
        cwd=tmp_path, env=ENVIRON, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield tmp_path, serving.stderr.readline().strip(), boss, amy
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(HANGS) == 0
        serving.stderr.close()


def test_an_operator_sees_a_users_messages_until_the_token_is_revoked(desk, visit):
    folder, address, boss, amy = desk
    page = visit(None, role=None, address=address, still=True)
    page.get_by_label("Token of a principal").fill(amy)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("the live view is for operators and viewers")
    page.get_by_label("Token of a principal").fill(boss)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    secret = {**ENVIRON, "AGENTSERVER_TOKEN": amy}
    subprocess.run(
        [sys.executable, "-m", "agentserver", "send", ORDER, "--to", "clerk", "--url", address],
        env=secret, capture_output=True, check=True, timeout=HANGS,
    )  # fmt: skip
    expect(page.locator(".organism .mark.bad")).to_have_count(4)
    assert page.context.cookies()[0]["name"].startswith("__Host-")
    page.get_by_role("link", name="Conversations").click()
    expect(page.get_by_role("table").get_by_role("cell", name="amy")).to_have_count(1)
    agentserver(folder, "principals", "revoke", "boss", "--organism", "plain.yaml")
    expect(page.get_by_role("alert")).to_have_text("Your session is over.")


def test_the_live_view_works_below_the_prefix_of_a_proxy(tmp_path, visit):
    with PrefixProxy() as proxy:
        settings = f"bind: '127.0.0.1:{proxy.door}', public_url: '{proxy.origin}', root_path: {PREFIX}"
        with _serve_process(tmp_path, settings) as (_, address, boss, amy):
            assert address == proxy.origin + PREFIX
            page = visit(None, role=None, address=proxy.origin + PREFIX, path="/")
            asked = []
            page.on("request", lambda request: asked.append(urlsplit(request.url).path))
            page.get_by_label("Token of a principal").fill(boss)
            page.get_by_role("button", name="Log in").click()
            expect(page.get_by_text("live", exact=True)).to_be_visible()
            subprocess.run(
                [sys.executable, "-m", "agentserver", "send", ORDER, "--to", "clerk", "--url", proxy.origin + PREFIX],
                env={**ENVIRON, "AGENTSERVER_TOKEN": amy}, capture_output=True, check=True, timeout=HANGS,
            )  # fmt: skip
            page.get_by_role("link", name="Conversations").click()
            expect(page.get_by_role("table").get_by_role("cell", name="amy")).to_have_count(1)
            page.reload()
            expect(page.get_by_role("table").get_by_role("cell", name="amy")).to_have_count(1)
            page.get_by_role("button", name="Log out").click()
            expect(page.get_by_label("Token of a principal")).to_be_visible()
            page.context.close()  # it would connect to a proxy that has left
            assert asked
            assert all(path.startswith(f"{PREFIX}/") for path in asked)
