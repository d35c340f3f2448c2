"""Admission: every request of every part is counted by its principal before it is handled.

Owns whose request it is, whether its role may pass, and that rate, streams, connections and CPU time are counted for
its principal. Refuses to know routes, and what a token is.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from agentserver.gateways.http.connections import STOPPING
from agentserver.gateways.http.parts import (
    CALLER,
    HEADS,
    SHARE,
    ProblemAnswer,
    crowded,
    nobody,
    stopping,
    too_many,
    unavailable,
)
from agentserver.gateways.http.shares import LoopShares
from agentserver.gateways.principals import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agentserver.gateways.http.connections import Connections, Holding
    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import DoorPart, KnownTokens, RequestPace
    from agentserver.gateways.http.shares import Share
    from agentserver.gateways.principals import Caller

NOBODY: Final = ""
"""The name under which requests of open parts are counted: no principal's."""

PARTING: Final = 1.0
"""Seconds that the end of an answer may take that the door has cut short."""

COUNTED: Final = "agentserver.counted"
"""The key of a request's scope that holds True where its refusal is counted for no address: it is counted for its
principal, or comes from a page whose session is over, which asks for a token then."""

_UNKNOWN: Final = frozenset({401, 403, 421})
"""Statuses of requests that nobody is known to have made."""

EXTRA: Final = "agentserver.headers"
"""The key of a request's scope under which further headers of its answer are."""


class TokenKeeper:
    """Knows whose request it is that shows a token, and how often each may come.

    Args:
        known: the tokens.
        pace: the rates.
    """

    def __init__(self, known: KnownTokens, pace: RequestPace) -> None:
        self.known, self._pace = known, pace

    def caller(self, scope: Scope) -> Caller:
        """The principal whose token a request shows.

        Raises ProblemAnswer: 401 for an unknown token, 503 while no token can be known.
        """
        found = self.known.authenticate(_token(scope))
        if found is None:
            raise self._unknown()
        return found

    def _unknown(self) -> ProblemAnswer:
        return unavailable() if self.known.away else nobody()

    def count(self, found: Caller) -> None:
        """Count a request. Raises ProblemAnswer (429) for one that comes too soon."""
        delay = self._pace.take(found)
        if delay:
            seconds = int(delay) + 1
            helps = f"come again in {seconds} s, or have an operator give you a higher rate"
            raise too_many(f"You may make {found.rate} requests: {helps}.", str(seconds))

    def refuse(self, scope: Scope, status: int) -> ProblemAnswer | None:
        """Count the refusal of a request for its address. Gives another answer where there are too many of them."""
        if status not in _UNKNOWN or COUNTED in scope:
            return None
        delay = self._pace.refuse((scope.get("client") or ("",))[0])
        if not delay:
            return None
        seconds = int(delay) + 1
        told = f"Too many refused requests come from this address: come again in {seconds} s, with a valid token."
        return ProblemAnswer(429, told, {"retry-after": str(seconds), "connection": "close"})

    def standing(self, found: Caller, receive: Receive) -> Receive:
        """The body of a request whose token must still be valid when the body ends.

        Raises ProblemAnswer there (401): a body takes its time, in which a token may be revoked.
        """

        async def taken() -> Message:
            message = await receive()
            whole = message["type"] == "http.request" and not message.get("more_body", False)
            if whole and not self.known.stands(found):
                raise self._unknown()
            return message

        return taken


class Admission:
    """Lets requests in, counted by their principals.

    Args:
        options: of the door.
        keeper: of the tokens.
        holding: the streams.
        connections: of the door.
    """

    def __init__(
        self, options: DoorOptions, keeper: TokenKeeper, holding: Holding, connections: Connections
    ) -> None:
        self._options, self._keeper = options, keeper
        self._holding, self._connections = holding, connections
        self.shares = LoopShares()

    def routed(self, part: DoorPart) -> Sequence[BaseRoute]:
        """The routes of a part, each behind its admission."""
        for route in part.routes:
            vars(route)["app"] = _Admitted(vars(route)["app"], part, self)
        return part.routes

    def caller(self, part: DoorPart, scope: Scope) -> Caller | None:
        """The principal of a request, which is counted; None in an open part. Raises ProblemAnswer."""
        if part.open:
            self._seat(None)
            return None
        found = self._keeper.caller(scope) if part.session is None else part.session(scope)
        scope[COUNTED] = True
        if found is None:
            raise nobody()
        self._keeper.count(found)
        if found.role not in part.roles:
            raise ProblemAnswer(403, f"The role {found.role} does not come in here.")
        self._seat(found)
        return found

    def _seat(self, caller: Caller | None) -> None:
        """Raise ProblemAnswer (503) for a request that would take a connection of the reserve."""
        operator = caller is not None and caller.role is Role.OPERATOR
        if self._connections.scarce or (self._connections.crowded and not operator):
            raise crowded()

    @contextmanager
    def counted(self, caller: Caller | None) -> Iterator[Share]:
        """Count a request of a principal while it is there. Raises ProblemAnswer (429) when there are too many."""
        share = self.shares.of(NOBODY if caller is None else caller.name)
        most = self._options.present
        if share.present >= most:
            raise too_many(f"{most} requests of yours are at work or being sent: let some of them end first.")
        share.present += 1
        try:
            yield share
        finally:
            share.present -= 1

    def body(self, caller: Caller | None, share: Share, scope: Scope, receive: Receive) -> Receive:
        """The body of a request, counted for its principal."""
        reading = scope.get("method", "GET") in ("GET", "HEAD")  # what is held is looked after by Holding
        inner = receive if reading or caller is None else self._keeper.standing(caller, receive)

        async def counted() -> Message:
            message = await inner()
            share.count_read(len(message.get("body") or message.get("text") or message.get("bytes") or b""))
            return message

        return counted

    async def held(self, app: ASGIApp, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that lasts as a stream of its principal. Raises ProblemAnswer."""
        answer = _Answer(send)
        with self._holding.hold(caller) as one:
            await app(scope, receive, answer.send)
        if one.why and not answer.begun:
            raise stopping() if one.why == STOPPING else nobody()
        if one.why and not answer.whole:
            with anyio.move_on_after(PARTING):
                await answer.send({"type": "http.response.body", "body": b"", "more_body": False})


class _Answer:
    """An answer as it is sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = self.whole = False

    async def send(self, message: Message) -> None:
        """Send a piece of it."""
        self.begun = True
        self.whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


@dataclass(frozen=True, slots=True)
class _Admitted:
    """One route behind its admission. An ASGI application."""

    app: ASGIApp
    part: DoorPart
    admission: Admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[EXTRA].extend(
            (name.lower().encode(), each.encode()) for name, each in self.part.headers.items()
        )
        if self.part.probe:
            await self.app(scope, receive, send)
            return
        admission = self.admission
        found = admission.caller(self.part, scope)
        with admission.counted(found) as share:
            if found is not None:
                scope[CALLER] = found
            scope[SHARE] = share
            await share.run(self._answer(found, scope, admission.body(found, share, scope, receive), send))

    async def _answer(self, found: Caller | None, scope: Scope, receive: Receive, send: Send) -> None:
        if self.part.held and found is not None:
            await self.admission.held(self.app, found, scope, receive, send)
        else:
            await self.app(scope, receive, send)


def _token(scope: Any) -> str:
    """The bearer token that a request shows; empty for none. No cookie counts: other sites can have one sent."""
    shown = scope[HEADS].get(b"authorization", b"").decode("latin-1")
    scheme, _, token = shown.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
