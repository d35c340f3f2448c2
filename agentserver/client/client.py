"""The client: one principal at one door.

The token is sent only to this door, and over a network only if encrypted. Redirects are not followed.
"""

from __future__ import annotations

import json
import ssl
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Literal, Self
from urllib.parse import quote

import httpx

from agentserver.client import values
from agentserver.client.conversations import RemoteConversation
from agentserver.client.requests import PendingRequest, RetryPolicy, fetch

if TYPE_CHECKING:
    from types import TracebackType

    from agentserver.client.values import PendingApproval

_LOCAL: Final = ("127.0.0.1", "::1", "localhost")


class Client:
    """Connection of a principal to the door of an organism. An async context manager.

    Args:
        url: of the door, such as http://127.0.0.1:8420.
        token: the principal's.
        patience: seconds for which failed requests are retried.
        tls: for a door whose certificate the machine does not trust.
        plain: whether the token may be sent over a network unencrypted, because something else encrypts it.

    Raises ValueError for an invalid url, and for one over which the token would be sent unencrypted.
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
        """Address of the door."""
        return str(self._http.base_url)

    async def open(self, key: str | None = None) -> RemoteConversation:
        """Open a conversation.

        Args:
            key: idempotency key; the same one opens the same conversation.

        Raises ProblemError, such as 429 when too many conversations are open, UnreachableError.
        """
        headers = {"idempotency-key": key or token_urlsafe(16)}
        response = await fetch(
            self._http, PendingRequest("POST", "/v1/conversations", headers=headers), self._retries()
        )
        return self.conversation(values.read_text(values.read_object(response.content), "conversation"))

    def conversation(self, key: str, taken: str = "") -> RemoteConversation:
        """Return an open conversation by its id.

        Args:
            key: its id.
            taken: id of the last acknowledged event; empty at the beginning.
        """
        return RemoteConversation(self._http, key, taken, self._patience)

    async def approvals(self) -> tuple[PendingApproval, ...]:
        """List the messages that wait for a person, oldest first. Raises ProblemError, such as 403 for a user."""
        response = await fetch(self._http, PendingRequest("GET", "/v1/approvals"), self._retries())
        return values.read_approvals(values.read_object(response.content))

    async def decide(self, approval: PendingApproval, answer: Literal["once", "always", "deny"]) -> None:
        """Answer an approval, for exactly the message that was shown.

        Raises ProblemError: 403 without the right, 404 and 409 if it was already answered; UnreachableError,
        after which ``approvals`` shows whether the answer counted.
        """
        body = json.dumps({"digest": approval.digest, "answer": answer}).encode()
        headers = {"content-type": "application/json"}
        path = f"/v1/approvals/{quote(approval.id, safe='')}"
        await fetch(
            self._http, PendingRequest("POST", path, {}, headers, body, resend=False), self._retries()
        )

    def _retries(self) -> RetryPolicy:
        return RetryPolicy(self._patience)


def connect(
    url: str, token: str, *, tls: ssl.SSLContext | None = None, plain: bool = False
) -> httpx.AsyncClient:
    """Connect a principal to a door. Arguments and errors as for ``Client``."""
    address = _check_address(url)
    if address.scheme == "http" and address.host not in _LOCAL and not plain:
        raise ValueError(f"{url}: over a network a token is sent to https:// only")
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ValueError("this is not a token")
    encrypted = address.scheme == "https"
    if not encrypted:
        tls = ssl.SSLContext(
            ssl.PROTOCOL_TLS_CLIENT
        )  # trusts nobody: reading the authorities takes 20 ms or more
    return httpx.AsyncClient(
        base_url=address,
        headers={"authorization": f"Bearer {token}"},
        verify=True if tls is None else tls,
        trust_env=encrypted,  # a proxy could read unencrypted requests
    )


def _check_address(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL:
        raise ValueError(f"{url!r} is not an address") from None
    if found.scheme not in ("http", "https") or not found.host or found.userinfo:
        raise ValueError(f"{url!r} is not the address of a door: it must begin with http:// or https://")
    return found
