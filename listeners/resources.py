"""Resources that the handlers of the desk share: a model, an HTTP client, and a site of its own on a loopback port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TypeAlias

import anyio
import httpx
from anyio.to_thread import run_sync

from listeners.model import Model
from listeners.scripted import complete

PAGES = Path(__file__).resolve().parent.parent / "examples" / "site"


@dataclass(frozen=True, slots=True)
class Site:
    """Site of the desk.

    Args:
        authority: host and port, as in ``127.0.0.1:41234``.
    """

    authority: str

    @property
    def url(self) -> str:
        """URL of the front page."""
        return f"http://{self.authority}/"


Resources: TypeAlias = tuple[Model, Site, httpx.AsyncClient]


@asynccontextmanager
async def lifespan() -> AsyncIterator[Resources]:
    """Open the shared resources while the server runs."""
    async with serve(PAGES) as site, http_client() as client:
        yield Model(complete), site, client


def http_client() -> httpx.AsyncClient:
    """Make a client that ignores the environment and requests no compression."""
    return httpx.AsyncClient(
        trust_env=False, headers={"accept-encoding": "identity", "user-agent": "research-desk"}
    )


@asynccontextmanager
async def serve(directory: Path) -> AsyncIterator[Site]:
    """Serve the files of a directory on a free loopback port."""
    handler = partial(_Quiet, directory=str(directory))
    server = await run_sync(ThreadingHTTPServer, ("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield Site(f"127.0.0.1:{server.server_port}")
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(server.shutdown)
            await run_sync(thread.join)
            server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    """Request handler that serves files without logging."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""
