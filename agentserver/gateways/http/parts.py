"""Answers that say no: problem details (RFC 9457), one status for each reason.

Owns which status a code of the system's has, and that nothing more is said than its SystemError says. Pure.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, cast

from agentserver.contract import Code
from agentserver.core.refusals import WORDINGS
from agentserver.gateways.principals import Role
from agentserver.ports import Ingress, Unkept, UnkeptError

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
"""Seconds after which one that was told the server is busy may come again (Retry-After)."""

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
    """A request is answered with a problem.

    Args:
        status: of the answer.
        detail: one sentence for the sender of the request; empty for none.
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
    """The answer for a code, in the words of its SystemError or those given."""
    wording = WORDINGS[code]
    again = wording.retry_allowed if retry is None else retry
    headers = {"retry-after": AGAIN} if code is Code.BUSY else {}
    return ProblemAnswer(
        STATUS[code], detail or wording.message, headers, code=str(code), retry=again, **more
    )


def unknown() -> ProblemAnswer:
    """A conversation that is not there, or not the caller's: both are told alike."""
    return ProblemAnswer(404, "There is no such conversation.")


def unavailable() -> ProblemAnswer:
    """The server cannot keep a message at present."""
    return ProblemAnswer(503, "The server cannot take this at present.", {"retry-after": AGAIN})


def away() -> ProblemAnswer:
    """The storage of conversations takes nothing: the log says why, for the answer is anybody's to read."""
    told = "The storage of conversations is away, or has lost messages: nothing new is taken."
    return ProblemAnswer(503, told, {"retry-after": AGAIN})


def unheard() -> ProblemAnswer:
    """Another process has the conversation, and nothing was heard of it in time."""
    return ProblemAnswer(
        503, "Nothing was heard of this in time. It is kept, and may be carried out yet: look first."
    )


def stopping() -> ProblemAnswer:
    """The server is about to stop."""
    return ProblemAnswer(503, "The server is stopping.", {"retry-after": "10"})


def over() -> ProblemAnswer:
    """The conversation is closed."""
    return ProblemAnswer(410, "The conversation is over.")


def too_large(most: int) -> ProblemAnswer:
    """The body has more bytes than are taken."""
    return ProblemAnswer(413, f"A body has at most {most} bytes.", {"connection": "close"})


def too_many(detail: str, seconds: str = AGAIN) -> ProblemAnswer:
    """The principal has as much of something as it may have."""
    return ProblemAnswer(429, detail, {"retry-after": seconds})


def nobody() -> ProblemAnswer:
    """No token was shown, or an unknown one."""
    return ProblemAnswer(401, "A token is needed.", {"www-authenticate": "Bearer"})


def crowded() -> ProblemAnswer:
    """The connections that are left are for probes and operators."""
    told = "All connections are in use; those that are left are for operators."
    return ProblemAnswer(503, told, {"retry-after": AGAIN, "connection": "close"})


def unkept(why: Unkept) -> ProblemAnswer:
    """The answer for a message of which nothing was kept."""
    match why:
        case Unkept.STOPPING:
            return stopping()
        case Unkept.OVER:
            return over()
        case Unkept.UNKEPT:
            return unavailable()


T = TypeVar("T")

logger = logging.getLogger("agentserver.http")

CALLER = "agentserver.caller"
"""The key of a request's scope under which its caller is kept."""

HEADS = "agentserver.heads"
"""The key under which its headers are, by name."""

SHARE = "agentserver.share"
"""The key under which the share of its principal is (agentserver/gateways/http/shares.py)."""

PEOPLE: Final = frozenset({Role.USER, Role.OPERATOR, Role.VIEWER})
"""The roles of those who talk to the organism, look after it, or look at it."""


class DoorHost(Ingress, Protocol):
    """The door's needs of a server."""

    @property
    def rules(self) -> Rules:
        """The rules by which conversations decide."""
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
        """The messages that wait for a person, the oldest first."""
        ...

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False when nothing waits for it any more."""
        ...

    async def read(self, work: Callable[[EngineReader], T]) -> T:
        """Do some reading for operators of what the engine has kept."""
        ...


class KnownTokens(Protocol):
    """The door's needs of the tokens."""

    def authenticate(self, token: str) -> Caller | None:
        """The caller whose token it is; None for an unknown one."""
        ...

    @property
    def away(self) -> bool:
        """True while no token is known because the store of principals does not answer."""
        ...

    def stands(self, caller: Caller) -> bool:
        """True while the caller is as it was authenticated."""
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
    """Routes of the door that belong together. Every request of them passes the gate (admission.py).

    Args:
        name: for people.
        routes: with their whole paths.
        open: whether no principal is asked for: for files that hold no secret, or a login.
        session: knows the caller of a request that shows no token, such as by the cookie of a session; None where a
            token has to be shown.
        roles: may pass.
        held: whether a request lasts, so that each counts as a stream of its principal.
        probe: whether it is served from the reserve of connections, and no principal is asked for.
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
    """The principal of a request. Raises KeyError in an open part, where no token was asked for."""
    return cast("Caller", request.scope[CALLER])


def acting(request: HTTPConnection) -> Caller:
    """The principal of a request. Raises ProblemAnswer for one who may only look."""
    who = caller(request)
    if not who.acts:
        raise ProblemAnswer(403, "This role may only look.")
    return who


def header(request: HTTPConnection, name: bytes) -> str:
    """A header of a request; empty where it has none. ``name`` has small letters."""
    return cast("bytes", request.scope[HEADS].get(name, b"")).decode("latin-1")


def host(request: HTTPConnection) -> DoorHost:
    """The server."""
    return cast("DoorHost", request.app.host)


async def read_body(request: Request, reader: Callable[[bytes], T]) -> T:
    """Read the body of a request, one that is large in a thread."""
    threads: ReadingThreads = request.app.reading
    return await threads.read(reader, await request.body())


async def opened(server: DoorHost, who: Caller, key: str | None, *, kept: bool) -> str:
    """The id of a conversation that is opened for a caller, or that it has under this key already.

    ``kept`` has the opening committed before, where it is acknowledged by itself.

    Raises ProblemAnswer: 403 for one that the organism cannot know, such as one who may address a listener that went;
    and QuotaError.
    """
    try:
        handle = await server.open(who.principal, key=key, most=who.open, kept=kept)
    except UnkeptError as error:
        raise unkept(error.why) from None
    except ValueError as error:
        logger.warning("no conversation was opened: %s", error)
        raise ProblemAnswer(403, "This organism and this principal's rights do not fit together.") from None
    handle.detach()
    return handle.id
