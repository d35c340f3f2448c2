"""Building blocks of routes: problem answers (RFC 9457), groups of routes, and access to the caller and the server.

A problem has one status for each code, and only the details of its SystemError.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar, cast
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.core.refusals import ERROR_WORDINGS
from agentserver.gateways.hosts import ServerView
from agentserver.gateways.principals import Role
from agentserver.ports import Ingress, MessageConflictError, NotStoredError, RejectReason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import HTTPConnection, Request
    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from agentserver.core.state.approvals import Approval
    from agentserver.foreign_json.threads import ReadingThreads
    from agentserver.gateways.principals import Caller, Delay
    from agentserver.ports import SubmitResult
    from agentserver.ports.schedules import Schedule


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
        self, status: int, detail: str = "", headers: Mapping[str, str] = MappingProxyType({}), **members: Any
    ) -> None:
        super().__init__(status, detail)
        self.status = status
        self.headers = {"content-type": PROBLEM, **headers}
        self.detail, self.more = detail, members

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Add headers to the answer."""
        self.headers |= headers
        return self

    @property
    def body(self) -> bytes:
        """The problem as JSON."""
        title = HTTPStatus(self.status).phrase
        detail = {"detail": self.detail} if self.detail else {}
        return json.dumps({"title": title, "status": self.status, **detail, **self.more}).encode()


def by_code(code: Code, detail: str = "", *, retry: bool | None = None, **members: Any) -> ProblemAnswer:
    """Build the answer for a code, with the text of its SystemError or the given one."""
    wording = ERROR_WORDINGS[code]
    may_retry = wording.retry_allowed if retry is None else retry
    headers = {"retry-after": AGAIN} if code is Code.BUSY else {}
    return ProblemAnswer(
        STATUS[code], detail or wording.message, headers, code=str(code), retry=may_retry, **members
    )


@contextmanager
def report_unknown() -> Iterator[None]:
    """Answer a LookupError with 404: an unknown conversation, or another principal's, which looks the same."""
    try:
        yield
    except LookupError:
        raise _make_unknown() from None


def _make_unknown() -> ProblemAnswer:
    return ProblemAnswer(404, "There is no such conversation.")


@contextmanager
def report_not_submitted(key: str) -> Iterator[None]:
    """Answer the errors of a message, as ``explain_not_submitted`` does."""
    try:
        yield
    except (MessageConflictError, LookupError) as error:
        raise explain_not_submitted(error, key) from None


def explain_not_submitted(error: MessageConflictError | LookupError, key: str) -> ProblemAnswer:
    """Build the answer to an unknown conversation, or to another message under its ``key``."""
    if isinstance(error, MessageConflictError):
        return ProblemAnswer(422, f"Another message was sent under this {key}.")
    return _make_unknown()


def check_stored(submitted: SubmitResult) -> None:
    """Raise ProblemAnswer for a message that was not stored."""
    if isinstance(submitted.code, RejectReason):
        raise not_stored(submitted.code)


def list_waiting(server: DoorHost, conversation: str, request: str = "") -> list[Approval]:
    """List the open approvals of a conversation, or of one of its requests."""
    state = server.conversation(conversation)
    found = () if state is None else state.approvals()
    return [each for each in found if request in ("", each.delivery.request)]


def unavailable(reason: str = "The server cannot take this at present.") -> ProblemAnswer:
    """Build the answer of a server that cannot store messages, or authenticate callers, at present."""
    return ProblemAnswer(503, reason, {"retry-after": AGAIN})


def server_stopping() -> ProblemAnswer:
    """Build the answer of a server that is about to stop."""
    return ProblemAnswer(503, "The server is stopping.", {"retry-after": "10"})


def too_large(maximum: int) -> ProblemAnswer:
    """Build the answer for an oversized body."""
    return ProblemAnswer(413, f"A body has at most {maximum} bytes.", {"connection": "close"})


def too_many(detail: str, seconds: str = AGAIN) -> ProblemAnswer:
    """Build the answer for a principal at one of its limits."""
    return ProblemAnswer(429, detail, {"retry-after": seconds})


def unauthenticated() -> ProblemAnswer:
    """Build the answer for a missing or unknown token."""
    return ProblemAnswer(
        401, "A token that counts is needed: Authorization: Bearer TOKEN.", {"www-authenticate": "Bearer"}
    )


def not_stored(reason: RejectReason) -> ProblemAnswer:
    """Build the answer for a message that was not stored."""
    match reason:
        case RejectReason.STOPPING:
            return server_stopping()
        case RejectReason.OVER:
            return ProblemAnswer(410, "The conversation is over.")
        case RejectReason.UNKEPT:
            return unavailable()


T = TypeVar("T")

logger = logging.getLogger("agentserver.http")

CALLER = "agentserver.caller"
"""The scope key for the caller."""

HEADS = "agentserver.heads"
"""The scope key for the headers by name."""

BODY: Final = "agentserver.body"
"""The scope key for the received body."""

SHARE = "agentserver.share"
"""The scope key for the share of its principal (agentserver/gateways/http/shares.py)."""

REFUSAL: Final = "agentserver.refusal"
"""The scope key for the form of refusals: converts a ProblemAnswer into that of another protocol."""

PEOPLE: Final = frozenset({Role.USER, Role.OPERATOR, Role.VIEWER})
"""The roles of those who talk to the organism, look after it, or look at it."""


class DoorHost(Ingress, ServerView, Protocol):
    """The door's needs of a server."""

    @property
    def schedules(self) -> Sequence[Schedule]:
        """The messages that it sends at set times."""

    @property
    def trouble(self) -> str:
        """The reason why nothing new can be kept at present; empty where it can."""


class TokenSource(Protocol):
    """The door's needs of the tokens."""

    def authenticate(self, token: str) -> Caller | None:
        """Return the caller of a token; None for an unknown one."""

    async def prepare(self, token: str) -> None:
        """Fetch the key of a token if its provider has a new one. Takes a few seconds at most."""

    def explain_absence(self, token: str) -> str:
        """Return why a token cannot be checked at present; empty if it can."""

    def stands(self, caller: Caller) -> bool:
        """Tell whether the caller is still as it was authenticated."""


class RequestPace(Protocol):
    """The door's needs of the rates."""

    def take(self, caller: Caller) -> Delay:
        """Count a request, unless it has to wait."""

    def refuse(self, address: str) -> float:
        """Count a refused request of an address. Gives 0.0, or the seconds until there may be one."""


@dataclass(frozen=True, slots=True)
class DoorPart:
    """A group of routes. Every request passes the gate and the admission (admission.py).

    Args:
        name: for people.
        routes: with their whole paths.
        open: whether requests need no principal: for public files, or a login.
        session: authenticates a request without a token, such as by the cookie of a session; None to require one.
        prepare: runs before ``session``, which does not wait.
        roles: may pass.
        resource: the path whose tokens it accepts.
        spends: whether POST requests begin work that budgets count.
        held: whether a request lasts, so that each counts as a stream of its principal.
        probe: whether it is served from the reserve of connections, without a principal.
        headers: of each of its answers.
        challenge: WWW-Authenticate of its 401 answers.
        refusal: converts the refusals of its requests into those of another protocol; None for problems.
        lifespan: entered while the door is open.
    """

    name: str
    routes: Sequence[BaseRoute]
    open: bool = False
    session: Callable[[Scope], Caller | None] | None = None
    prepare: Callable[[Scope], Awaitable[None]] | None = None
    roles: frozenset[Role] = PEOPLE
    resource: str = "/"
    spends: bool = True
    held: bool = False
    probe: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    challenge: str = "Bearer"
    refusal: Callable[[ProblemAnswer], ProblemAnswer] | None = None
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None


def read_caller(request: HTTPConnection) -> Caller:
    """Return the principal of a request. Raises KeyError in an open part, which authenticates no caller."""
    return cast("Caller", request.scope[CALLER])


def read_acting_caller(request: HTTPConnection) -> Caller:
    """Return the principal of a request. Raises ProblemAnswer for a read-only role."""
    principal = read_caller(request)
    if not principal.acts:
        raise ProblemAnswer(403, "This role may only look.")
    return principal


def read_header(request: HTTPConnection, name: bytes) -> str:
    """Return a header of a request; empty without it. ``name`` is lower case."""
    return cast("bytes", request.scope[HEADS].get(name, b"")).decode("latin-1")


def read_query(request: HTTPConnection) -> dict[str, str]:
    """Return the parameters of a request's query; of those with one name the last."""
    query = cast("bytes", request.scope["query_string"])
    return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {}


def read_host(request: HTTPConnection) -> DoorHost:
    """Return the server."""
    return cast("DoorHost", request.app.host)


def path_to(request: HTTPConnection, path: str) -> str:
    """Return a path of the door for its clients, below the prefix at which they reach it."""
    return f"{request.scope.get('root_path', '')}{path}"


async def receive_body(request: Request) -> bytes:
    """Receive the whole body of a request, or return it again. Raises ClientDisconnect."""
    known: bytes | None = request.scope.get(BODY)
    if known is not None:
        return known
    pieces, more = list[bytes](), True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    body: bytes = request.scope.setdefault(BODY, b"".join(pieces))
    return body


async def read_body(request: Request, reader: Callable[[bytes], T]) -> T:
    """Read the body of a request, one that is large in a thread."""
    threads: ReadingThreads = request.app.reading
    return await threads.read(reader, await receive_body(request))


async def open_conversation(server: DoorHost, caller: Caller, key: str | None, *, committed: bool) -> str:
    """Open a conversation for a caller, or find the one of this key. Returns its id.

    ``committed`` commits the opening first, for an answer of its own.

    Raises ProblemAnswer: 403 for rights that this organism lacks, such as for a removed listener; and QuotaError.
    """
    try:
        handle = await server.open(caller.principal, key=key, maximum=caller.open, committed=committed)
    except NotStoredError as error:
        raise not_stored(error.reason) from None
    except ValueError as error:
        logger.warning("no conversation was opened: %s", error)
        raise ProblemAnswer(403, "This organism and this principal's rights do not fit together.") from None
    handle.detach()
    return handle.id


_PLACE: Final = "/.well-known/oauth-protected-resource"


class DescribedResource(NamedTuple):
    """Resource whose clients can find its issuers.

    Args:
        part: the open routes of its metadata.
        challenge: WWW-Authenticate of its 401 answers, which names the metadata.
    """

    part: DoorPart
    challenge: str


def describe_resource(url: str, path: str, issuers: Sequence[str]) -> DescribedResource:
    """Describe a resource of the door: at its own place, and at the place of the host for older clients.

    Args:
        url: of the door, without a path.
        path: of the resource.
        issuers: of the tokens that it accepts.
    """
    metadata = {
        "resource": f"{url}{path}",
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
    }

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(metadata)

    routes = [Route(place, answer, methods=["GET"]) for place in (f"{_PLACE}{path}", _PLACE)]
    challenge = f'Bearer resource_metadata="{url}{_PLACE}{path}"'
    return DescribedResource(DoorPart(f"metadata of {path}", routes, open=True), challenge)
