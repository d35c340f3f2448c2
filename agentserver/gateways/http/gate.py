"""The gate that every request passes: which Host and Origin, whose token, how large a body, how long it may take.

Owns the order of these questions, and that every answer is one that is documented. Refuses to know routes.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from agentserver.foreign_json.reading import JsonCounter, JsonLimits
from agentserver.gateways.http.held import Turns
from agentserver.gateways.http.parts import CALLER, HEADS
from agentserver.gateways.http.problems import ProblemAnswer, too_large, unavailable, unheard
from agentserver.ports import EngineError, QuotaError, UnheardError, UnkeptError

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from starlette.routing import BaseRoute, Router
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import DoorPart, KnownTokens, RequestPace
    from agentserver.gateways.principals import Caller

logger = logging.getLogger("agentserver.http")

PROBES: Final = ("/healthz", "/readyz")
"""Paths at which the door does not ask by which name it was reached: they tell nothing, and probes use addresses."""

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)

_EXTRA: Final = "agentserver.headers"

LINGER: Final = 1.0
"""Seconds for which more of a body that is too large is thrown away, so that its sender comes to read the answer."""

_CLOSED: Final = {"connection": "close"}

_NOBODY: Final = {"www-authenticate": "Bearer"}


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate before the routes. An ASGI application.

    Args:
        options: of the door.
        router: of all parts.
        app: what handlers see as the application.
    """

    options: DoorOptions
    router: Router
    app: object

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one connection of a WebSocket."""
        scope["app"] = self.app
        scope[HEADS] = heads = _heads(scope)
        started = False
        extra: list[tuple[bytes, bytes]] = []
        scope[_EXTRA] = extra

        async def answering(message: Message) -> None:
            nonlocal started
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = [*message.get("headers", ()), *_HEADERS, *extra]
                started = True
            elif kind == "websocket.accept":
                started = True
            await send(message)

        bounded = _Bounded(receive, self.options, heads) if scope["type"] == "http" else receive
        try:
            self._check(scope, heads)
            await self.router(scope, bounded, answering)
        except ClientDisconnect:  # there is no client to answer
            return
        except Exception as error:  # the connection's loop: others go on
            refused = _refused(error)
            if refused.status in (413, 422) and isinstance(bounded, _Bounded):
                await bounded.linger()
            if started:
                raise
            await _answer(refused, scope, answering)

    def _check(self, scope: Scope, heads: Mapping[bytes, bytes]) -> None:
        """Raise ProblemAnswer for a request that comes from elsewhere, or says that its body is too large."""
        if scope["path"] not in PROBES:
            named = heads.get(b"host", b"").decode("latin-1").lower()
            if named not in self.options.hosts:
                raise ProblemAnswer(421, "This server is not reached by this name.")
            origin = heads.get(b"origin")
            if origin is not None and origin.decode("latin-1").lower() not in self.options.origins:
                raise ProblemAnswer(403, "This server takes no requests of other sites.")
        length = heads.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 18 or int(length) > self.options.body):  # noqa: PLR2004 - digits
            raise too_large(self.options.body)


class TokenKeeper:
    """Asks for tokens, and lets those who have one take turns.

    Args:
        known: the tokens.
        pace: the rates.
    """

    def __init__(self, known: KnownTokens, pace: RequestPace) -> None:
        self.known, self._pace = known, pace
        self.turns = Turns()

    def caller(self, scope: Scope) -> Caller:
        """The principal of a request. Raises ProblemAnswer: 401 for an unknown token, 429 for too many."""
        found = self.known.authenticate(_token(scope[HEADS]))
        if found is None:
            raise _unknown()
        delay = self._pace.take(found)
        if delay:
            raise ProblemAnswer(429, "Too many requests.", {"retry-after": str(int(delay) + 1)})
        return found

    def standing(self, found: Caller, receive: Receive) -> Receive:
        """The body of a request, of one who still has to stand when the last of it comes.

        Raises ProblemAnswer there (401): a body takes its time, in which a token may be revoked.
        """

        async def taken() -> Message:
            message = await receive()
            whole = message["type"] == "http.request" and not message.get("more_body", False)
            if whole and not self.known.stands(found):
                raise _unknown()
            return message

        return taken

    def routed(self, part: DoorPart) -> Sequence[BaseRoute]:
        """The routes of a part, each behind the question whose request it is."""
        extra = [(name.lower().encode(), value.encode()) for name, value in part.headers.items()]
        for route in part.routes:
            inner = vars(route)["app"]
            vars(route)["app"] = _Asking(inner, None if part.open else self, extra)
        return part.routes


@dataclass(frozen=True, slots=True)
class _Asking:
    """One route. An ASGI application."""

    app: ASGIApp
    keeper: TokenKeeper | None
    extra: Sequence[tuple[bytes, bytes]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_EXTRA].extend(self.extra)
        if self.keeper is None:
            await self.app(scope, receive, send)
            return
        scope[CALLER] = found = self.keeper.caller(scope)
        async with self.keeper.turns.turn(found.name):
            reading = scope.get("method", "GET") in ("GET", "HEAD")  # what is held is looked after by Holding
            await self.app(scope, receive if reading else self.keeper.standing(found, receive), send)


class _Bounded:
    """The body of a request, of which no more is taken than is allowed, and for no longer.

    A client that sends no more of it at all is cut off by its connection. JSON is counted here, before any route's
    parser: some are those of libraries.
    """

    def __init__(self, receive: Receive, options: DoorOptions, heads: Mapping[bytes, bytes]) -> None:
        self._receive, self._options = receive, options
        json = heads.get(b"content-type", b"").lower().startswith(b"application/json")
        self._counter = JsonCounter(JsonLimits()) if json else None
        self._left, self._until, self._whole = options.body, 0.0, False

    async def __call__(self) -> MutableMapping[str, Any]:
        """The next piece. Raises ProblemAnswer when it is too much or too late."""
        message = await self._receive()
        if self._whole:
            return message
        now = time.monotonic()
        self._until = self._until or now + self._options.patience
        if now > self._until:
            raise ProblemAnswer(408, "The body did not come in time.", {"connection": "close"})
        if message["type"] == "http.request":
            self._whole = not message.get("more_body", False)
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise too_large(self._options.body)
            self._count(message.get("body", b""))
        return message

    def _count(self, piece: bytes) -> None:
        """Raise ProblemAnswer for JSON beyond the limits."""
        if self._counter is None:
            return
        refused = self._counter.feed(piece) or (self._counter.end() if self._whole else None)
        if refused is not None:
            self._counter = None
            raise ProblemAnswer(422, f"A JSON body {refused.rule}.", _CLOSED)

    async def linger(self) -> None:
        """Throw away what else comes, for a moment."""
        with anyio.move_on_after(LINGER):
            while not self._whole:
                message = await self._receive()
                self._whole = not message.get("more_body", False)


def _heads(scope: Scope) -> Mapping[bytes, bytes]:
    """The headers by name. One that must be there once and is there twice means nothing that could be trusted."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        found[name] = b"" if name in found and name in (b"host", b"origin", b"authorization") else value
    return found


def _token(heads: Mapping[bytes, bytes]) -> str:
    """The bearer token that a request shows; empty for none. No cookie counts: other sites can have one sent."""
    scheme, _, token = heads.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _unknown() -> ProblemAnswer:
    """The answer to a token that counts for nobody."""
    return ProblemAnswer(401, "A token is needed.", _NOBODY)


def _refused(error: Exception) -> ProblemAnswer:
    """The answer that an error is."""
    match error:
        case ProblemAnswer():
            return error
        case HTTPException():  # of the router: nothing lies at this path, or it takes another method
            return ProblemAnswer(error.status_code, headers=dict(error.headers or {}))
        case QuotaError():
            return ProblemAnswer(429, "You have as many of these as you may.", {"retry-after": "1"})
        case UnheardError():
            return unheard()
        case UnkeptError() | EngineError():
            return unavailable()
    logger.error("a request could not be dealt with", exc_info=error)
    return ProblemAnswer(500)


async def _answer(refused: ProblemAnswer, scope: Scope, send: Send) -> None:
    """Send a problem."""
    body = refused.body
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in refused.headers.items()]
    headers.append((b"content-length", str(len(body)).encode()))
    prefix = "websocket." if scope["type"] == "websocket" else ""
    await send({"type": f"{prefix}http.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": body, "more_body": False})
