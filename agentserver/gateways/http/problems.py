"""Answers that say no: problem details (RFC 9457), one status for each reason.

Owns which status a code of the system's has, and that nothing more is said than its SystemError says. Pure.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from agentserver.contract import Code
from agentserver.core.refusals import WORDINGS
from agentserver.ports import Unkept

if TYPE_CHECKING:
    from collections.abc import Mapping

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
