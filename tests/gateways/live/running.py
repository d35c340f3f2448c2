"""A server with its live view on a socket, in a thread of its own: a browser waits in the test's thread."""

from __future__ import annotations

import asyncio
import threading

import uvicorn
from starlette.applications import Starlette

from agentserver.assembly import build
from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.live import Assets, LiveView
from agentserver.gateways.principals import Caller, Rate, Role
from agentserver.gateways.principals.sessions import Sessions
from agentserver.payload.names import local
from tests.machine import HANGS

TOKENS = {role: f"{role}-token".ljust(43, "x") for role in Role}


class People:
    """Tokens as the live view knows them."""

    def __init__(self):
        self.known = {
            token: Caller(Principal(f"{role}-ann", Trust.ORDERS, None), role, Rate(100, "s"), 20, token)
            for role, token in TOKENS.items()
        }
        self.gone = asyncio.Event()

    def authenticate(self, token):
        return self.known.get(token)

    async def prepare(self, token):
        """Fetch nothing."""

    def explain_absence(self, token):
        return ""

    def stands(self, caller):
        return self.known.get(caller.grant) == caller

    async def wait_revoked(self, caller):
        while self.stands(caller):
            await self.gone.wait()

    def revoke(self, running, token):
        del self.known[token]
        running.do(self._tell())

    async def _tell(self):
        self.gone.set()
        self.gone = asyncio.Event()


class RunningServer:
    """A running server. ``address`` is where a browser finds it."""

    def __init__(self, organism, **how):
        self.organism = organism
        self._how = how
        self._assets = Assets()
        self._ready = threading.Event()
        self._loop = None
        self.people = None
        self.prompt_roles = frozenset() if organism.models is None else organism.models.prompts.roles
        self.failed = None

    def __enter__(self):
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(HANGS)
        if self.failed is not None:
            raise self.failed
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANGS)
        assert not self._thread.is_alive()
        if self.failed is not None:
            raise self.failed

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.people = People()
        try:
            async with build(self.organism, **self._how) as self.server:
                self.view = view = LiveView(
                    self.server,
                    Sessions(self.people),
                    self._assets,
                    name=self.organism.name,
                    secrets=self.organism.secrets.redact,
                    prompt_readers=lambda: self.prompt_roles,
                )
                config = uvicorn.Config(
                    Starlette(routes=[*view.list_pages(), *view.list_view_routes(), *view.list_streams()]),
                    port=0,
                    log_level="error",
                    timeout_graceful_shutdown=1,
                )
                http = uvicorn.Server(config)
                config.load()
                http.lifespan = config.lifespan_class(config)
                await http.startup()
                port = http.servers[0].sockets[0].getsockname()[1]
                self.address = f"http://127.0.0.1:{port}"
                self._ready.set()
                serving = asyncio.ensure_future(http.main_loop())
                await self._stop.wait()
                http.should_exit = True
                await serving
                await http.shutdown()
        except BaseException as error:  # noqa: BLE001 - for the test's thread
            self.failed = error
            self._ready.set()

    def do(self, work):
        """Run a coroutine in the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANGS)

    def open(self, principal="ann"):
        return self.do(self.server.open(principal))

    def say(self, handle, payload, to):
        """Send a payload, without waiting for its reply."""
        return self.do(handle.send(self.written(payload), to))

    def ask(self, handle, payload, to):
        """Send a payload; return the answer as text."""

        async def replies():
            found = [reply async for reply in handle.replies(self.written(payload), to)]
            return [(reply.sender, local(reply.root), reply.message.decode()) for reply in found]

        return self.do(replies())

    def written(self, payload):
        return self.server.rules.codecs.of(type(payload)).encode(payload).encode()
