"""Organisms of the examples, run through the real server."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import anyio
import pytest

from agentserver.assembly import build
from agentserver.config import forget, load
from agentserver.wire.envelope import read_envelope
from tests.machine import HANGS

PROJECT = Path(__file__).resolve().parents[2]


class Conversation:
    """One conversation with a running organism."""

    def __init__(self, running, handle):
        self.running, self.id, self._handle = running, handle.id, handle

    async def replies(self, payload, to=None):
        """Every reply, decoded, with its sender."""
        codecs = self.running.codecs
        data = payload if isinstance(payload, bytes) else codecs.of(type(payload)).encode(payload).encode()
        found = []
        async for reply in self._handle.replies(data, to):
            element = read_envelope(reply.message).payload
            found.append((reply.sender, codecs.for_root(element.tag).decode(element)))
        return found

    async def ask(self, payload, to=None):
        """The one reply."""
        ((_, answer),) = await self.replies(payload, to)
        return answer

    def records(self, event):
        return [r for r in self.running.server.trace.list_records(self.id) if r.event == event]


class RunningOrganism:
    """A running organism."""

    def __init__(self, server):
        self.server, self.codecs = server, server.rules.codecs

    def make(self, name, *args, **fields):
        """A payload by the name of its class: the modules of an organism leave the process with it."""
        kinds = {codec.payload.__name__: codec.payload for codec in self.codecs}
        return kinds[name](*args, **fields)

    async def open(self, known=None):
        opened = await (self.server.resume("console", known) if known else self.server.open("console"))
        return Conversation(self, opened)


def with_facts(organism, name, **changes):
    """The organism with other facts about one listener."""
    listeners = (
        replace(bound, listener=replace(bound.listener, **changes)) if bound.listener.name == name else bound
        for bound in organism.listeners
    )
    return replace(organism, listeners=tuple(listeners))


def with_settings(organism, name, **changes):
    """The organism with other settings of one listener."""
    listeners = (
        replace(bound, settings=replace(bound.settings, **changes)) if bound.listener.name == name else bound
        for bound in organism.listeners
    )
    return replace(organism, listeners=tuple(listeners))


@asynccontextmanager
async def run(organism, approver=None, engine=None):
    with anyio.fail_after(HANGS):
        async with build(organism, approver=approver, engine=engine) as server:
            yield RunningOrganism(server)


@pytest.fixture(scope="module")
def organisms():
    """What the tests of one file have loaded: a checked organism is a value, so one is enough for all of them."""
    known = {}
    yield known
    for organism in known.values():
        forget(organism)


@pytest.fixture
def loaded(monkeypatch, tmp_path, organisms):
    """Load an organism by its path in the project, and work in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def load_it(path):
        if path not in organisms:
            organisms[path] = load(PROJECT / path, environ={})
        return organisms[path]

    return load_it


@pytest.fixture
def moded(request, monkeypatch, tmp_path):
    """The desk with another mode in its YAML, which is the parameter; work is in an empty directory."""
    monkeypatch.chdir(tmp_path)
    text = (PROJECT / "config/organism.yaml").read_text()
    path = tmp_path / "organism.yaml"
    path.write_text(text.replace("mode: enforce", f"mode: {request.param}"))
    assert f"mode: {request.param}" in path.read_text()
    organism = load(path, environ={}, project=PROJECT)
    yield organism
    forget(organism)


class Web:
    """A real HTTP server on loopback, whose answers are functions by path."""

    def __init__(self):
        self.routes, self.asked, self.over = {}, [], Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                web.asked.append(self.path)
                web.routes[self.path](self)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.authority = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.authority}"
        self._thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def page(self, path, body, *, status=200, kind="text/html; charset=utf-8", after=None, **headers):
        """Answer a path; ``after`` is waited for before."""
        data = body if isinstance(body, bytes) else body.encode()

        def answer(handler):
            if after is not None:
                after.wait(HANGS)
            handler.send_response(status)
            handler.send_header("Content-Type", kind)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            with suppress(ConnectionError):
                handler.wfile.write(data)

        self.routes[path] = answer

    def redirect(self, path, target):
        self.page(path, "", status=302, Location=target)

    def hang(self, path):
        """Never answer, until the test ends."""
        self.page(path, "", after=self.over)

    def close(self):
        self.over.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def web():
    web = Web()
    yield web
    web.close()


@pytest.fixture
def desk(loaded):
    return loaded("config/organism.yaml")


def on_site(organism, web, model=None, *, client=True):
    """The desk with another site, and perhaps another model or no HTTP client."""
    resources, scripted, models = (
        sys.modules[f"listeners.{name}"] for name in ("resources", "scripted", "model")
    )

    @asynccontextmanager
    async def lifespan():
        async with resources.http_client() as http:
            shared = (models.Model(model or scripted.complete), resources.Site(web.authority), http)
            yield shared if client else shared[:2]

    return replace(organism, lifespan=lifespan, files=())  # made in code: its resources are the test's own
