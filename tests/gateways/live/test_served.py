"""The live view as a user has it: behind ``agentserver serve``, with tokens of ``agentserver principals``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
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


class PrefixProxy:
    """A proxy that serves a door below PREFIX and strips it, on a socket, in a thread of its own."""

    def __enter__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:  # a door behind a proxy does not print its port
            self.door = free.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANGS)
        self._loop.close()

    def _do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANGS)

    async def _close(self):
        self._server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self, reader, writer):
        """Pass on one request, with its path below the prefix; all others are not found."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, rest = head.split(b" ", 2)
            if not path.startswith(f"{PREFIX}/".encode()):
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                await writer.drain()
                return
            rest = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", rest).replace(
                b"\r\n", b"\r\nconnection: close\r\n", 1
            )
            up, down = await asyncio.open_connection("127.0.0.1", self.door)
            with contextlib.closing(down):
                down.write(b" ".join((method, path[len(PREFIX) :], rest)))
                there = asyncio.ensure_future(self._pipe(reader, down))
                await self._pipe(up, writer)
                there.cancel()

    async def _pipe(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()


@pytest.fixture
def desk(tmp_path):
    """The example with its door open at a port of the system's choice; its address, and the tokens of an operator and a user."""
    with _serving(tmp_path, "bind: 127.0.0.1:0") as desk:
        yield desk


@contextlib.contextmanager
def _serving(tmp_path, http):
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


def test_an_operator_sees_what_a_user_sends_until_the_token_is_revoked(desk, visit):
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
        with _serving(tmp_path, settings) as (_, address, boss, amy):
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
            assert asked
            assert all(path.startswith(f"{PREFIX}/") for path in asked)
