"""The client: one principal at one door.

Owns the connection and the token, which goes to this door alone, and over a network only when it is encrypted. Refuses
to follow a redirect.
"""

from __future__ import annotations

import json
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Literal, Self
from urllib.parse import quote

import httpx

from agentserver.client import values
from agentserver.client.conversations import RemoteConversation
from agentserver.client.requests import Asked, Tries, fetch

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    from agentserver.client.values import PendingApproval

_LOCAL: Final = ("127.0.0.1", "::1", "localhost")


class Client:
    """A principal's way to the door of an organism. An async context manager.

    Args:
        url: of the door, such as http://127.0.0.1:8420.
        token: the principal's.
        patience: seconds for which what failed is tried again.
        tls: for a door whose certificate the machine does not know.
        plain: whether the token may go over a network unencrypted, because something else encrypts it.

    Raises ValueError for a url that is none, and for one over which the token would go in the clear.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        patience: float = 30.0,
        tls: ssl.SSLContext | None = None,
        plain: bool = False,
    ) -> None:
        self._patience = patience
        self._http = connect(url, token, tls=tls, plain=plain)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    @property
    def url(self) -> str:
        """The address of the door."""
        return str(self._http.base_url)

    async def open(self, key: str | None = None) -> RemoteConversation:
        """Open a conversation.

        Args:
            key: an id of the program's own; the same one gives the same conversation.

        Raises ProblemError, such as 429 when as many are open as may be, UnreachableError.
        """
        headers = {"idempotency-key": key or token_urlsafe(16)}
        response = await fetch(self._http, Asked("POST", "/v1/conversations", headers=headers), self._tries())
        return self.conversation(values.text(values.read_object(response.content), "conversation"))

    def conversation(self, key: str, taken: str = "") -> RemoteConversation:
        """A conversation that was opened before, by its id.

        Args:
            key: its id.
            taken: the id of the last event that was taken of it; empty for none.
        """
        return RemoteConversation(self._http, key, taken, self._patience)

    async def approvals(self) -> tuple[PendingApproval, ...]:
        """The messages that wait for a person, the oldest first. Raises ProblemError, such as 403 for a user."""
        response = await fetch(self._http, Asked("GET", "/v1/approvals"), self._tries())
        return values.approvals(values.read_object(response.content))

    async def decide(self, approval: PendingApproval, answer: Literal["once", "always", "deny"]) -> None:
        """Answer an approval: for the message that was shown, and no other.

        Raises ProblemError: 403 for one who may not, 404 and 409 when it was answered meanwhile; UnreachableError,
        after which the answer may count or not: ``approvals`` tells.
        """
        body = json.dumps({"digest": approval.digest, "answer": answer}).encode()
        headers = {"content-type": "application/json"}
        path = f"/v1/approvals/{quote(approval.id, safe='')}"
        await fetch(self._http, Asked("POST", path, {}, headers, body, again=False), self._tries())

    def _tries(self) -> Tries:
        return Tries(self._patience)


def connect(
    url: str, token: str, *, tls: ssl.SSLContext | None = None, plain: bool = False
) -> httpx.AsyncClient:
    """A way to a door for one principal. Arguments and errors are those of ``Client``."""
    address = _address(url)
    if address.scheme == "http" and address.host not in _LOCAL and not plain:
        raise ValueError(f"{url}: over a network a token goes to https:// alone")
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ValueError("this is no token")
    return httpx.AsyncClient(
        base_url=address,
        headers={"authorization": f"Bearer {token}"},
        verify=True if tls is None else tls,
        trust_env=address.scheme == "https",  # a proxy would read what is not encrypted
    )


def _address(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL:
        raise ValueError(f"{url!r} is no address") from None
    if found.scheme not in ("http", "https") or not found.host or found.userinfo:
        raise ValueError(f"{url!r} is no address of a door: one begins with http:// or https://")
    return found
