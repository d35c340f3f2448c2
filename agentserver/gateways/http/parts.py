"""Building blocks of routes: problem answers (RFC 9457), groups of routes, and access to the caller and the server.

A problem has one status for each code, and only the details of its SystemError.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, cast

from agentserver.contract import Code
from agentserver.core.refusals import ERROR_WORDINGS
from agentserver.gateways.principals import Role
from agentserver.ports import Ingress, RejectReason, UnkeptError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import HTTPConnection, Request
    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval, ApprovalAnswer
    from agentserver.foreign_json.threads import ReadingThreads
    from agentserver.gateways.principals import Caller
    from agentserver.ports import EngineReader
    from agentserver.trace.store import TraceBook

PROBLEM: Final = "application/problem+json"

AGAIN: Final = "1"
"""Seconds until a client of a busy server may retry (Retry-After)."""

STATUS: Final[Mapping[Code, int]] = MappingProxyType(
    {
        Code.ROUTING: 404,
        Code.VALIDATION: 422,
        Code.DENIED: 403,
        Code.TIMEOUT: 504,
        Code.INTERNAL: 502,
        Code.BUDGET: 402,
        Code.BUSY: 429,
    }
)
"""The status of each code of a SystemError."""


class ProblemAnswer(Exception):  # noqa: N818 - an answer, and no mistake of anybody's
    """Error that is answered with a problem.

    Args:
        status: of the answer.
        detail: one sentence for the sender of the request; may be empty.
        headers: more headers of the answer.
        more: more members of the problem.
    """

    def __init__(
        self, status: int, detail: str = "", headers: Mapping[str, str] = MappingProxyType({}), **more: Any
    ) -> None:
        super().__init__(status, detail)
        self.status = status
        self.headers = {"content-type": PROBLEM, **headers}
        self._told = {"detail": detail} if detail else {}
        self._more = more

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Add headers to the answer."""
        self.headers |= headers
        return self

    @property
    def body(self) -> bytes:
        """The problem as JSON."""
        title = HTTPStatus(self.status).phrase
        return json.dumps({"title": title, "status": self.status, **self._told, **self._more}).encode()


def by_code(code: Code, detail: str = "", *, retry: bool | None = None, **more: Any) -> ProblemAnswer:
    """Build the answer for a code, with the text of its SystemError or the given one."""
    wording = ERROR_WORDINGS[code]
    again = wording.retry_allowed if retry is None else retry
    headers = {"retry-after": AGAIN} if code is Code.BUSY else {}
    return ProblemAnswer(
        STATUS[code], detail or wording.message, headers, code=str(code), retry=again, **more
    )


def unknown() -> ProblemAnswer:
    """Build the answer for an unknown conversation, or another principal's: both look the same."""
    return ProblemAnswer(404, "There is no such conversation.")


def unavailable() -> ProblemAnswer:
    """Build the answer of a server that cannot store messages at present."""
    return ProblemAnswer(503, "The server cannot take this at present.", {"retry-after": AGAIN})


def storage_away() -> ProblemAnswer:
    """Build the answer of a door whose storage is unavailable. The reason is only logged."""
    told = "The storage of conversations is away, or has lost messages: nothing new is taken."
    return ProblemAnswer(503, told, {"retry-after": AGAIN})


def unanswered_request() -> ProblemAnswer:
    """Build the answer for a conversation in another process that did not respond in time."""
    return ProblemAnswer(
        503, "There was no answer in time. The request is stored and may still be carried out: check first."
    )


def server_stopping() -> ProblemAnswer:
    """Build the answer of a server that is about to stop."""
    return ProblemAnswer(503, "The server is stopping.", {"retry-after": "10"})


def conversation_closed() -> ProblemAnswer:
    """Build the answer for a closed conversation."""
    return ProblemAnswer(410, "The conversation is over.")


def too_large(most: int) -> ProblemAnswer:
    """Build the answer for an oversized body."""
    return ProblemAnswer(413, f"A body has at most {most} bytes.", {"connection": "close"})


def too_many(detail: str, seconds: str = AGAIN) -> ProblemAnswer:
    """Build the answer for a principal at one of its limits."""
    return ProblemAnswer(429, detail, {"retry-after": seconds})


def unauthenticated() -> ProblemAnswer:
    """Build the answer for a missing or unknown token."""
    return ProblemAnswer(401, "A token is needed.", {"www-authenticate": "Bearer"})


def connections_crowded() -> ProblemAnswer:
    """Build the answer when only reserved connections are left."""
    told = "All connections are in use; those that are left are for operators."
    return ProblemAnswer(503, told, {"retry-after": AGAIN, "connection": "close"})


def not_stored(why: RejectReason) -> ProblemAnswer:
    """Build the answer for a message that was not stored."""
    match why:
        case RejectReason.STOPPING:
            return server_stopping()
        case RejectReason.OVER:
            return conversation_closed()
        case RejectReason.UNKEPT:
            return unavailable()


T = TypeVar("T")

logger = logging.getLogger("agentserver.http")

CALLER = "agentserver.caller"
"""The scope key for the caller."""

HEADS = "agentserver.heads"
"""The scope key for the headers by name."""

SHARE = "agentserver.share"
"""The scope key for the share of its principal (agentserver/gateways/http/shares.py)."""

PEOPLE: Final = frozenset({Role.USER, Role.OPERATOR, Role.VIEWER})
"""The roles of those who talk to the organism, look after it, or look at it."""


class DoorHost(Ingress, Protocol):
    """The door's needs of a server."""

    @property
    def rules(self) -> Rules:
        """Rules of the decisions."""
        ...

    @property
    def trace(self) -> TraceBook:
        """The events of late."""
        ...

    @property
    def trouble(self) -> str:
        """The reason why nothing new can be kept at present; empty where it can."""
        ...

    def approvals(self) -> tuple[Approval, ...]:
        """List the open approvals, oldest first."""
        ...

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False if the approval is no longer open."""
        ...

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Do some reading for operators of what the engine has kept."""
        ...


class KnownTokens(Protocol):
    """The door's needs of the tokens."""

    def authenticate(self, token: str) -> Caller | None:
        """Return the caller of a token; None for an unknown one."""
        ...

    @property
    def away(self) -> bool:
        """True while no token is known because the store of principals does not answer."""
        ...

    def stands(self, caller: Caller) -> bool:
        """Tell whether the caller is still as it was authenticated."""
        ...


class RequestPace(Protocol):
    """The door's needs of the rates."""

    def take(self, caller: Caller) -> float:
        """Count a request. Gives 0.0, or the seconds until there may be one."""
        ...

    def refuse(self, address: str) -> float:
        """Count a refused request of an address. Gives 0.0, or the seconds until there may be one."""
        ...


@dataclass(frozen=True, slots=True)
class DoorPart:
    """A group of routes. Every request passes the gate and the admission (admission.py).

    Args:
        name: for people.
        routes: with their whole paths.
        open: whether requests need no principal: for public files, or a login.
        session: authenticates a request without a token, such as by the cookie of a session; None to require one.
        roles: may pass.
        held: whether a request lasts, so that each counts as a stream of its principal.
        probe: whether it is served from the reserve of connections, without a principal.
        headers: of each of its answers.
        lifespan: entered while the door is open.
    """

    name: str
    routes: Sequence[BaseRoute]
    open: bool = False
    session: Callable[[Scope], Caller | None] | None = None
    roles: frozenset[Role] = PEOPLE
    held: bool = False
    probe: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None


def caller(request: HTTPConnection) -> Caller:
    """Return the principal of a request. Raises KeyError in an open part, which authenticates no caller."""
    return cast("Caller", request.scope[CALLER])


def acting_caller(request: HTTPConnection) -> Caller:
    """Return the principal of a request. Raises ProblemAnswer for a read-only role."""
    who = caller(request)
    if not who.acts:
        raise ProblemAnswer(403, "This role may only look.")
    return who


def header(request: HTTPConnection, name: bytes) -> str:
    """Return a header of a request; empty without it. ``name`` is lower case."""
    return cast("bytes", request.scope[HEADS].get(name, b"")).decode("latin-1")


def host(request: HTTPConnection) -> DoorHost:
    """Return the server."""
    return cast("DoorHost", request.app.host)


async def read_body(request: Request, reader: Callable[[bytes], T]) -> T:
    """Read the body of a request, one that is large in a thread."""
    threads: ReadingThreads = request.app.reading
    return await threads.read(reader, await request.body())


async def open_conversation(server: DoorHost, who: Caller, key: str | None, *, kept: bool) -> str:
    """Open a conversation for a caller, or find the one of this key. Returns its id.

    ``kept`` commits the opening first, for an answer of its own.

    Raises ProblemAnswer: 403 for rights that this organism lacks, such as for a removed listener; and QuotaError.
    """
    try:
        handle = await server.open(who.principal, key=key, most=who.open, kept=kept)
    except UnkeptError as error:
        raise not_stored(error.why) from None
    except ValueError as error:
        logger.warning("no conversation was opened: %s", error)
        raise ProblemAnswer(403, "This organism and this principal's rights do not fit together.") from None
    handle.detach()
    return handle.id
