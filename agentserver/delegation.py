"""Token exchange on behalf of the user of a conversation (RFC 8693)."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

__all__ = ["DelegationCode", "DelegationError", "Delegations"]


class DelegationCode(StrEnum):
    """Reason why no token of the user is there for a call."""

    UNSEEN = "unseen"
    """No request of the user came in at this server."""
    EXPIRED = "expired"
    REFUSED = "refused"
    """The provider exchanged none, or one that is not for this call."""
    RESOURCE = "resource"
    """The configuration does not name the server that the token is for."""
    UNCONFIGURED = "unconfigured"
    ENDED = "ended"
    """The conversation is over."""


class DelegationError(Exception):
    """Error of a call on behalf of a user who has not delegated it, or whose token is not there.

    Args:
        code: the reason.
        text: the reason with a correction, for the caller.
    """

    def __init__(self, code: DelegationCode, text: str) -> None:
        super().__init__(f"{text} [delegation:{code}]")
        self.code = code


class Delegations(Protocol):
    """Exchange of the tokens that users have shown."""

    async def exchange(self, principal: str, resource: str, scope: str) -> str:
        """Exchange the token of a principal for use at a resource.

        Args:
            principal: of the conversation.
            resource: address of the server that the token is for.
            scope: the scopes to ask for; empty for the provider's default.

        Raises DelegationError.
        """
