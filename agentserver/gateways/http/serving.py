"""The door on a socket: connections with deadlines, TLS, and uvicorn in a task group without signals."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agentserver.gateways.http.connections import GONE
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import ASGIApp

    from agentserver.gateways.http.connections import Connections

IDLE: Final = 5.0
"""Seconds for which a connection may stay without a request, where nothing else is said."""

HEADS: Final = 10.0
"""Seconds in which the head of a request has to arrive."""

BODY: Final = 12.0
"""Seconds within which more of a body has to arrive that nothing reads: where one is read, the gate answers before."""

STUCK: Final = 20.0
"""Seconds until a client must read some of its response; then its connection is cut."""

HEAD: Final = 32_768
"""Bytes of the head of a request."""

FILES: Final = 512
"""Files reserved for the rest of the process: journals, workers, outgoing connections."""

FRAME: Final = 4096
"""Bytes of a message over a WebSocket, by which a client confirms places."""

BUFFER: Final = 262_144
"""Bytes that the kernel keeps for a client that reads slowly."""

CORK: Final = 16_384
"""Bytes that are not kept back."""

GRACE: Final = 1
"""Seconds in which answers may be finished once the server ends."""


_REFUSED: Final = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BufferedTransport:
    """A transport that sends once per round of the loop: each send costs a system call.

    Args:
        transport: of the connection. Everything but writing is delegated.
        loop: its event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._pieces: list[bytes] = []
        self._bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send this soon, with what else is written until then."""
        if not self._pieces:
            self._loop.call_soon(self._send)
        self._pieces.append(data)
        self._bytes += len(data)
        if self._bytes > CORK:
            self._send()

    def close(self) -> None:
        """Send the buffer, and close the connection."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._pieces:
            self._transport.write(b"".join(self._pieces))
            self._pieces, self._bytes = [], 0


class StallGuard(asyncio.Protocol):
    """Mixin that cuts the connection of a client that reads nothing. Precedes the protocol in the bases."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    seats: Connections
    _stuck: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """More is to be sent than the client takes."""
        super().pause_writing()
        self._pause()

    def resume_writing(self) -> None:
        """Handle a client that reads again."""
        super().resume_writing()
        self._resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._resume()
        self.seats.remove(self.transport)
        super().connection_lost(exc)

    def _pause(self) -> None:
        self._resume()
        self._stuck = self.loop.call_later(STUCK, self.transport.abort)

    def _resume(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


class Socket(StallGuard, WebSocketsSansIOProtocol):
    """A WebSocket whose client has to read."""

    def __init__(self, *args: Any, seats: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seats = seats

    def data_received(self, data: bytes) -> None:
        """Handle bytes. The library answers no head that it does not take, such as one with a body."""
        super().data_received(data)
        if not self.handshake_initiated:  # the first bytes are the whole head
            self.transport.write(_REFUSED)
            self.transport.close()

    async def send(self, event: Any) -> None:
        """Pass on what the application says. One that refuses has answered, which the library would call an error."""
        await super().send(event)
        refused = event["type"] == "websocket.http.response.body" and not event.get("more_body", False)
        self.handshake_complete = self.handshake_complete or refused


class DoorConnection(StallGuard, H11Protocol):
    """A connection with deadlines for requests and reads."""

    _late: asyncio.TimerHandle | None = None
    _upgraded = False

    def __init__(self, *args: Any, seats: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seats = seats

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Handle a new connection."""
        super().connection_made(cast("asyncio.Transport", BufferedTransport(transport, self.loop)))
        if not self.seats.add(self.transport):
            transport.abort()
            return
        self._expect(HEADS)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of a request."""
        super().data_received(data)
        if self._upgraded:  # the rest is of the WebSocket
            return
        if self._works():
            self._clear_deadline()
            if self.cycle.more_body:
                self._expect(BODY)
        elif self._late is None:
            self._expect(HEADS)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP, and close. In a body they end its request, as if the client had gone."""
        cycle: Any = self.cycle  # None before the first request
        at_work = cycle is not None and (cycle.more_body or not cycle.response_complete)
        if at_work and cycle.response_started:  # there is no room for another answer
            self.transport.close()
        else:
            super().send_400_response(msg)
        if at_work:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Handle a sent response. A pipelined request starts."""
        self.seats.rest(self.transport)
        super().on_response_complete()
        self._works()

    def _works(self) -> bool:
        """Tell whether a request is in progress, and record it."""
        cycle: Any = self.cycle  # None before the first request, which the library does not say
        works = cycle is not None and not cycle.response_complete
        if works:
            self.seats.work(self.transport)
        return works

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Handle the upgrade to a WebSocket."""
        self._upgraded = True
        self._clear_deadline()
        self.seats.work(self.transport)
        super().handle_websocket_upgrade(event)

    def timeout_keep_alive_handler(self) -> None:
        """Handle an idle timeout. Unread data gets a short deadline."""
        super().timeout_keep_alive_handler()
        self._pause()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._clear_deadline()
        super().connection_lost(exc)
        scope: Any = self.scope  # None before the first request
        removed = None if scope is None else scope.get(GONE)
        if removed is not None:
            removed()

    def _expect(self, seconds: float) -> None:
        self._late = self.loop.call_later(seconds, self.transport.abort)

    def _clear_deadline(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises OSError on failure."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # or each answer would wait for an ack
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(2000 * STUCK))
        listening.bind((host, port))
        listening.listen(1024)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Make a context for TLS 1.3, with a certificate. Raises OSError (SSLError is one) for unusable files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    return context


def limit_connections(connections: int) -> int:
    """Limit connections to the file descriptors of this process, raising the soft limit where possible."""
    minimum, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES
    if minimum != resource.RLIM_INFINITY and minimum < wanted:
        minimum = wanted if maximum == resource.RLIM_INFINITY else min(wanted, maximum)
        resource.setrlimit(resource.RLIMIT_NOFILE, (minimum, maximum))
    return connections if minimum == resource.RLIM_INFINITY else max(min(connections, minimum - FILES), 1)


@asynccontextmanager
async def serve(
    app: ASGIApp,
    listening: socket.socket,
    secure: ssl.SSLContext | None,
    seats: Connections,
    idle: float = IDLE,
) -> AsyncIterator[None]:
    """Serve an application on a socket, which is closed at the end, while the context lasts.

    Args:
        app: the application.
        listening: as ``bound`` returns it.
        secure: None for plain HTTP.
        seats: counts its connections.
        idle: seconds for which a connection may stay without a request.
    """
    config = uvicorn.Config(
        app,
        http=cast("Any", partial(DoorConnection, seats=seats)),
        ws=cast("Any", partial(Socket, seats=seats)),
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_max_size=FRAME,
        ws_per_message_deflate=False,
        timeout_keep_alive=cast("int", idle),
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=HEAD,
    )
    config.load()
    config.ssl = secure
    web = uvicorn.Server(config)
    web.lifespan = config.lifespan_class(config)
    async with anyio.create_task_group() as tasks:
        await web.startup(sockets=[listening])
        start_errand(tasks, "keeps the time of HTTP", EndEffect.SERVER, web.main_loop)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                web.should_exit = True
                await web.shutdown(sockets=[listening])
            tasks.cancel_scope.cancel()
