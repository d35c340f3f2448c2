"""Admission: authenticates every request, checks its role, and counts it for its principal before it is handled.

Rates, streams, connections and CPU time are counted for each principal.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.requests import Request
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.gateways.http.connections import STOPPING
from agentserver.gateways.http.parts import (
    AGAIN,
    CALLER,
    HEADS,
    REFUSAL,
    SHARE,
    ProblemAnswer,
    by_code,
    server_stopping,
    too_many,
    unauthenticated,
    unavailable,
)
from agentserver.gateways.http.shares import LoopShares
from agentserver.gateways.principals import Role
from agentserver.ports.principals import InvalidPrincipalsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agentserver.gateways.http.connections import Connections, HeldConnections
    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import DoorPart, RequestPace, TokenSource
    from agentserver.gateways.http.shares import Share
    from agentserver.gateways.principals import Caller
    from agentserver.gateways.tenants import SpentBudgets

NOBODY: Final = ""
"""The name for counting requests of open parts, which is not a principal's."""

PARTING: Final = 1.0
"""Seconds that the end of an answer may take that the door has cut short."""

COUNTED: Final = "agentserver.counted"
"""The scope key that exempts a refusal from the count of its address: it is counted for its
principal, or comes from a page whose session has expired, which then asks for a token."""

_UNKNOWN: Final = frozenset({401, 403, 421})
"""Statuses of requests that nobody is known to have made."""

EXTRA: Final = "agentserver.headers"
"""The scope key for further response headers."""


class TokenKeeper:
    """Knows whose request it is that shows a token, and how often each may come.

    Args:
        known: the tokens.
        pace: the rates.
    """

    def __init__(self, known: TokenSource, pace: RequestPace) -> None:
        self.known, self._pace = known, pace

    def caller(self, scope: Scope) -> Caller:
        """Authenticate a request by its token.

        Raises ProblemAnswer: 401 for an unknown token, 503 while tokens cannot be checked.
        """
        found = self.known.authenticate(_token(scope))
        if found is None:
            raise self._refuse_unknown(scope)
        return found

    async def prepare(self, scope: Scope) -> None:
        """Fetch the key of a request's token if its provider has a new one."""
        await self.known.prepare(_token(scope))

    def _refuse_unknown(self, scope: Scope) -> ProblemAnswer:
        reason = self.known.explain_absence(_token(scope))
        return unavailable(reason) if reason else unauthenticated()

    def count(self, found: Caller) -> None:
        """Count a request. Raises ProblemAnswer (429) if it exceeds the rate."""
        delay = self._pace.take(found)
        if delay.seconds:
            seconds = int(delay.seconds) + 1
            message = f"{found.describe_limit(delay.owner, f'rate of {delay.rate}')} is used up"
            helps = f"come again in {seconds} s, or have an operator raise it"
            raise too_many(f"{message}: {helps}.", str(seconds))

    def refuse(self, scope: Scope, status: int) -> ProblemAnswer | None:
        """Count the refusal of a request for its address. Gives another answer where there are too many of them."""
        if status not in _UNKNOWN or COUNTED in scope:
            return None
        delay = self._pace.refuse((scope.get("client") or ("",))[0])
        if not delay:
            return None
        seconds = int(delay) + 1
        message = f"Too many refused requests come from this address: come again in {seconds} s, with a valid token."
        return ProblemAnswer(429, message, {"retry-after": str(seconds), "connection": "close"})

    def recheck_token(self, found: Caller, scope: Scope) -> None:
        """Check a token again at the end of a body: it may be revoked meanwhile. Raises ProblemAnswer (401)."""
        if not self.known.stands(found):
            raise self._refuse_unknown(scope)


class Admission:
    """Lets requests in, counted by their principals.

    Args:
        options: of the door.
        keeper: of the tokens.
        holding: the streams.
        connections: of the door.
        budgets: of callers, tenants and groups.
    """

    def __init__(
        self,
        options: DoorOptions,
        keeper: TokenKeeper,
        holding: HeldConnections,
        connections: Connections,
        budgets: SpentBudgets,
    ) -> None:
        self._options, self._keeper, self._budgets = options, keeper, budgets
        self._holding, self._connections = holding, connections
        self.shares = LoopShares()

    def guard_routes(self, part: DoorPart) -> Sequence[BaseRoute]:
        """Put each route of a part behind its admission."""
        for route in part.routes:
            headers = tuple((name.lower().encode(), each.encode()) for name, each in part.headers.items())
            vars(route)["app"] = _GuardedRoute(_make_app(route), part, self, headers)
        return part.routes

    async def prepare(self, part: DoorPart, scope: Scope) -> None:
        """Prepare the check of a request's token or session. Raises ProblemAnswer (503) if there can be none."""
        try:
            if part.prepare is not None:
                await part.prepare(scope)
            elif not part.open and part.session is None:
                await self._keeper.prepare(scope)
        except InvalidPrincipalsError:
            raise unavailable("Sessions cannot be checked at present.") from None

    def caller(self, part: DoorPart, scope: Scope) -> Caller | None:
        """Authenticate and count a request; None in an open part. Raises ProblemAnswer."""
        if part.open:
            self._seat(None)
            return None
        found = self._keeper.caller(scope) if part.session is None else part.session(scope)
        scope[COUNTED] = True
        if found is None or not found.reaches(part.resource):
            raise unauthenticated()
        self._keeper.count(found)
        if found.role not in part.roles:
            raise ProblemAnswer(403, f"The role {found.role} does not come in here.")
        self._seat(found)
        return found

    def _seat(self, caller: Caller | None) -> None:
        """Raise ProblemAnswer (503) for a request that would take a connection of the reserve."""
        operator = caller is not None and caller.role is Role.OPERATOR
        if self._connections.scarce or (self._connections.crowded and not operator):
            message = "All connections are in use; those that are left are for operators."
            raise ProblemAnswer(503, message, {"retry-after": AGAIN, "connection": "close"})

    async def check_budget(self, part: DoorPart, scope: Scope, caller: Caller | None) -> None:
        """Raise ProblemAnswer (402) for a message of a caller if its budget, its tenant's or a group's is used up."""
        if caller is None or not caller.budgets or not part.spends or scope.get("method", "POST") != "POST":
            return
        owner = await self._budgets.find_overspent(caller)
        if owner is not None:
            raise by_code(Code.BUDGET, f"{caller.describe_limit(owner, 'budget')} is used up for now.")

    def find_share(self, caller: Caller | None) -> Share:
        """Return the share of a request's principal. Raises ProblemAnswer (429) when too many of its are there."""
        share = self.shares.find(NOBODY if caller is None else caller.name)
        maximum = self._options.present
        if share.present >= maximum:
            raise too_many(
                f"{maximum} requests of yours are at work or being sent: let some of them end first."
            )
        return share

    def wrap_body(self, caller: Caller | None, share: Share, scope: Scope, receive: Receive) -> Receive:
        """Wrap the body of a request to count its bytes for its principal, and to check the token at its end."""
        reading = scope.get("method", "GET") in ("GET", "HEAD")  # what is held is looked after by Holding
        rechecked = None if reading else caller

        async def receive_counted() -> Message:
            message = await receive()
            if (
                rechecked is not None
                and message["type"] == "http.request"
                and not message.get("more_body", False)
            ):
                self._keeper.recheck_token(rechecked, scope)
            share.count_read(len(message.get("body") or message.get("text") or message.get("bytes") or b""))
            return message

        return receive_counted

    async def hold(self, app: ASGIApp, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that lasts as a stream of its principal. Raises ProblemAnswer."""
        answer = _Answer(send)
        with self._holding.hold(caller) as one:
            await app(scope, receive, answer.send)
        if one.reason and not answer.begun:
            raise server_stopping() if one.reason == STOPPING else unauthenticated()
        if one.reason and not answer.whole:
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
class _GuardedRoute:
    """One route behind its admission. An ASGI application."""

    app: ASGIApp
    part: DoorPart
    admission: Admission
    headers: Sequence[tuple[bytes, bytes]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[EXTRA].extend(self.headers)
        if self.part.refusal is not None:
            scope[REFUSAL] = self.part.refusal
        if self.part.probe:
            await self.app(scope, receive, send)
            return
        try:
            await self._admit(scope, receive, send)
        except ProblemAnswer as refused:
            if refused.status == 401:  # noqa: PLR2004 - unauthenticated
                refused.with_headers({"www-authenticate": self.part.challenge})
            raise

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate and count a request, and answer it. Raises ProblemAnswer."""
        admission = self.admission
        await admission.prepare(self.part, scope)
        found = admission.caller(self.part, scope)
        await admission.check_budget(self.part, scope, found)
        share = admission.find_share(found)
        share.present += 1
        try:
            if found is not None:
                scope[CALLER] = found
            scope[SHARE] = share
            await share.run(
                self._answer(found, scope, admission.wrap_body(found, share, scope, receive), send)
            )
        finally:
            share.present -= 1

    async def _answer(self, found: Caller | None, scope: Scope, receive: Receive, send: Send) -> None:
        if self.part.held and found is not None:
            await self.admission.hold(self.app, found, scope, receive, send)
        else:
            await self.app(scope, receive, send)


def _make_app(route: BaseRoute) -> ASGIApp:
    """Return the application of a route, without starlette's search for handlers of errors: the gate has them all."""
    app: ASGIApp = vars(route)["app"]
    if not isinstance(route, Route) or not iscoroutinefunction(route.endpoint):
        return app

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return answer


def _token(scope: Any) -> str:
    """Return the bearer token of a request, or an empty text. Cookies do not count: other sites can have one sent."""
    header = scope[HEADS].get(b"authorization", b"").decode("latin-1")
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
