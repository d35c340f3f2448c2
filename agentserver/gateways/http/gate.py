"""The gate that every request passes first: Host and Origin, size of the body, time for it, and known errors.

Whose request it is comes later (admission.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from agentserver.begun import begin
from agentserver.foreign_json.reading import JsonCounter, JsonLimits
from agentserver.gateways.http.admission import EXTRA
from agentserver.gateways.http.parts import (
    CALLER,
    HEADS,
    REFUSAL,
    ProblemAnswer,
    server_stopping,
    too_large,
    too_many,
    unavailable,
)
from agentserver.ports import EngineError, NoOutcomeError, NotStoredError, QuotaError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from starlette.routing import Router
    from starlette.types import Message, Receive, Scope, Send

    from agentserver.gateways.http.options import DoorOptions

logger = logging.getLogger("agentserver.http")
access = logging.getLogger("agentserver.http.access")

_PATH: Final = 300
"""Characters of a path in the log."""

PROBES: Final = ("/healthz", "/readyz")
"""Paths at which the door does not ask by which name it was reached: they tell nothing, and probes use addresses."""

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)

LINGER: Final = 1.0
"""Seconds for which more of a body that is too large is thrown away, so that its sender comes to read the answer."""

_CLOSED: Final = {"connection": "close"}


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate before the routes. An ASGI application.

    Args:
        options: of the door.
        router: of all parts.
        app: what handlers see as the application.
        refuse: counts a request that is refused with a status; gives another answer where there are too many.
    """

    options: DoorOptions
    router: Router
    app: object
    refuse: Callable[[Scope, int], ProblemAnswer | None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one connection of a WebSocket."""
        scope["app"], scope["root_path"] = self.app, self.options.root
        scope[HEADS], scope[EXTRA] = _heads(scope), []
        self._share_with_page(scope)
        if not self.options.logs:
            await self._answer(scope, receive, send)
            return
        begun, statuses = time.monotonic(), list[int]()

        async def send_noted(message: Message) -> None:
            statuses.append(message.get("status", 0))
            await send(message)

        try:
            await self._answer(scope, receive, send_noted)
        finally:
            _log_request(scope, statuses[:1], time.monotonic() - begun)

    def _share_with_page(self, scope: Scope) -> None:
        """Let the script of an allowed page read the answer (CORS). Its cookies are removed."""
        if not self.options.foreign:
            return
        scope[EXTRA].append((b"vary", b"origin"))
        origin = scope[HEADS].get(b"origin", b"")
        if origin.decode("latin-1").lower() not in self.options.foreign:
            return
        scope[EXTRA] += [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", b"*")]
        scope[HEADS].pop(b"cookie", None)
        scope["headers"] = [each for each in scope["headers"] if each[0] != b"cookie"]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        heads = scope[HEADS]
        body = _BoundedBody(scope, receive, self.options) if scope["type"] == "http" else None
        answering = _ResponseGuard(scope, send, body, self.refuse)
        try:
            self._check(scope, heads)
            if scope.get("method") == "OPTIONS" and b"access-control-request-method" in heads:
                await _answer_preflight(self.options, heads, answering.send)
                return
            await self._pass_on(scope, body, receive, answering.send)
        except ClientDisconnect:  # there is no client to answer
            return
        except asyncio.CancelledError:  # the server ends before the request does: uvicorn would answer 500
            if answering.started or scope["type"] != "http":
                raise
            await _answer(server_stopping(), scope, answering.send)
        except Exception as error:  # the connection's loop: others go on
            refused = _refuse(error)
            if body is not None:
                await body.end(refused)
            if answering.started:
                raise
            await _answer(refused, scope, answering.send)

    async def _pass_on(self, scope: Scope, body: _BoundedBody | None, receive: Receive, send: Send) -> None:
        """Pass a request on. Raises the refusal of its body also where a library has caught it."""
        await self.router(scope, body or receive, send)
        if body is not None and body.refusal is not None:
            raise body.refusal

    def _check(self, scope: Scope, heads: Mapping[bytes, bytes]) -> None:
        """Raise ProblemAnswer for a request that comes from elsewhere, or whose body has two lengths.

        A proxy may read two lengths in another way than this server: RFC 9112, 6.1, wants the connection closed.
        """
        if b"content-length" in heads and b"transfer-encoding" in heads:
            raise ProblemAnswer(
                400, "A request has one length: Content-Length or Transfer-Encoding.", _CLOSED
            )
        if scope["path"].removeprefix(self.options.root) not in PROBES:
            named = heads.get(b"host", b"").decode("latin-1").lower()
            if named not in self.options.hosts:
                raise ProblemAnswer(421, "This server is not reached by this name.")
            origin = heads.get(b"origin")
            known = self.options.origins | self.options.foreign
            if origin is not None and origin.decode("latin-1").lower() not in known:
                raise ProblemAnswer(403, "This server takes no requests of other sites.")


class _ResponseGuard:
    """The answer to a request, as it is sent."""

    def __init__(
        self,
        scope: Scope,
        send: Send,
        body: _BoundedBody | None,
        refuse: Callable[[Scope, int], ProblemAnswer | None],
    ) -> None:
        self._scope, self._send, self._body, self._refuse = scope, send, body, refuse
        self.started = self._replaced = False

    async def send(self, message: Message) -> None:
        """Send a message of the response, or its replacement."""
        if self._replaced or (self._body is not None and self._body.refusal is not None):
            return  # a library's own answer to the error that a refused body is for it
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.started = True
            instead = self._refuse(self._scope, message["status"])
            if instead is not None:
                self._replaced = True
                await _answer(instead, self._scope, self._begin)
                return
            await self._begin(message)
            return
        self.started = self.started or kind == "websocket.accept"
        await self._send(message)

    async def _begin(self, message: Message) -> None:
        """Send a piece; the first with the headers of every answer."""
        if "headers" in message:
            chosen = {name.lower() for name, _ in message["headers"]}
            added = [each for each in _HEADERS if each[0] not in chosen]
            message["headers"] = [*message["headers"], *added, *self._scope[EXTRA]]
        await self._send(message)


_DIGITS: Final = 18
"""Digits of a length that is read as a number."""


class _BoundedBody:
    """The body of a request, limited in size and time.

    JSON is counted here, before any route's parser: some are those of libraries. A body that announces to be too large
    is refused at the first read, when the route, and so the form of its refusals, is known.
    """

    def __init__(self, scope: Scope, receive: Receive, options: DoorOptions) -> None:
        self._receive, self._options = receive, options
        self._counter = JsonCounter(JsonLimits()) if _names_json(scope) else None
        length = scope[HEADS].get(b"content-length", b"")
        self._announced = length.isdigit() and (len(length) > _DIGITS or int(length) > options.body)
        self._remaining, self._until, self._complete = options.body, 0.0, False
        self.refusal: ProblemAnswer | None = None

    async def __call__(self) -> Message:
        """Receive the next piece. Raises ProblemAnswer, also stored in ``refusal``, if it exceeds a limit."""
        if self._complete:
            return await self._receive()
        try:
            if self._announced:
                raise too_large(self._options.body)
            found = begin(cast("Coroutine[Any, Any, Message]", self._receive()))
            if iscoroutine(found):
                found = await self._wait(found)
            return self._take(cast("Message", found))
        except ProblemAnswer as error:
            self.refusal = error
            raise

    async def _wait(self, receiving: Coroutine[Any, Any, Message]) -> Message:
        """Wait for a piece that is not here yet. Raises ProblemAnswer if it does not come in time."""
        now = time.monotonic()
        self._until = self._until or now + self._options.patience
        with anyio.move_on_after(min(self._until - now, self._options.pause)):
            return await receiving
        raise ProblemAnswer(408, "The body did not come in time.", _CLOSED)

    def _take(self, message: Message) -> Message:
        if message["type"] == "http.request":
            self._complete = not message.get("more_body", False)
            self._remaining -= len(message.get("body", b""))
            if self._remaining < 0:
                raise too_large(self._options.body)
            self._count(message.get("body", b""))
        return message

    def _count(self, piece: bytes) -> None:
        """Raise ProblemAnswer for JSON beyond the limits."""
        if self._counter is None:
            return
        refused = self._counter.feed(piece) or (self._counter.end() if self._complete else None)
        if refused is not None:
            self._counter = None
            raise ProblemAnswer(422, f"A JSON body {refused.rule}.", _CLOSED)

    async def end(self, refused: ProblemAnswer) -> None:
        """Send the refusal; discard the rest of an oversized body for a short time."""
        self.refusal = None
        if refused.status not in (413, 422):
            return
        with anyio.move_on_after(LINGER):
            while not self._complete:
                message = await self._receive()
                self._complete = not message.get("more_body", False)


def _names_json(scope: Scope) -> bool:
    """Tell whether any of a request's types names JSON: libraries take the first of two, or one of a list."""
    return any(name == b"content-type" and b"json" in value.lower() for name, value in scope["headers"])


def _heads(scope: Scope) -> Mapping[bytes, bytes]:
    """Return the headers by name. A unique header that occurs twice is refused."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        found[name] = b"" if name in found and name in (b"host", b"origin", b"authorization") else value
    return found


async def _answer_preflight(options: DoorOptions, heads: Mapping[bytes, bytes], send: Send) -> None:
    """Answer a browser that asks whether a page may make a request. Raises ProblemAnswer for other pages."""
    if heads.get(b"origin", b"").decode("latin-1").lower() not in options.foreign:
        raise ProblemAnswer(405)
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", b"authorization, *"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _log_request(scope: Scope, statuses: list[int], seconds: float) -> None:
    """Log a request in one line, without its query and its headers."""
    path = scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "backslashreplace")
    principal = scope[CALLER].name if CALLER in scope else "-"
    status = statuses[0] if statuses and statuses[0] else "-"
    line = (scope.get("method", "WEBSOCKET"), path[:_PATH], status, seconds * 1000, principal)
    access.info("%s %s %s %.0f ms %s", *line)


def _refuse(error: Exception) -> ProblemAnswer:
    """Convert an error to its answer."""
    match error:
        case ProblemAnswer():
            return error
        case HTTPException():  # of the router: nothing lies at this path, or it takes another method
            return ProblemAnswer(error.status_code, headers=dict(error.headers or {}))
        case QuotaError():
            return too_many(f"{error}; DELETE /v1/conversations/ID ends one.")
        case NoOutcomeError():
            message = "There was no answer in time. The request is stored and may still be carried out: check first."
            return ProblemAnswer(503, message)
        case NotStoredError() | EngineError():
            return unavailable()
    logger.error("a request could not be dealt with", exc_info=error)
    return ProblemAnswer(500)


async def _answer(refused: ProblemAnswer, scope: Scope, send: Send) -> None:
    """Send a refusal, in the form of the protocol that its part speaks."""
    if REFUSAL in scope:
        refused = scope[REFUSAL](refused)
    body = refused.body
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in refused.headers.items()]
    headers.append((b"content-length", str(len(body)).encode()))
    prefix = "websocket." if scope["type"] == "websocket" else ""
    await send({"type": f"{prefix}http.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": body, "more_body": False})
