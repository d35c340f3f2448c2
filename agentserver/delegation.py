"""Token exchange on behalf of the user of a conversation (RFC 8693)."""

from __future__ import annotations

from typing import Protocol

__all__ = ["DelegationError", "Delegations"]


class DelegationError(Exception):
    """Error of a call on behalf of a user who has not delegated it, or whose token has expired."""


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
