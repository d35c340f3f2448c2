"""Protocols of the stores of principals and of their request rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping


class InvalidPrincipalsError(ValueError):
    """Stored principals cannot be used. The text says why."""


class StoreAwayError(InvalidPrincipalsError):
    """The store does not answer at present."""


class StoredPrincipals(NamedTuple):
    """Principals as read from a store.

    Args:
        edition: changes with the data; None for an empty store.
        data: the stored bytes.
    """

    edition: Hashable
    data: bytes


class PrincipalStore(Protocol):
    """Store of the principals of an organism as one text. Its ``str`` is its name for people. Every method blocks."""

    def edition(self) -> Hashable:
        """Return the current edition; None when the store is empty or has no editions. Raises StoreAwayError."""

    def read(self) -> StoredPrincipals:
        """Read the principals. Raises InvalidPrincipalsError, or its subclass StoreAwayError."""

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the text by the result of ``change``, under a lock.

        Raises InvalidPrincipalsError, OSError, and what ``change`` raises; then nothing has changed.
        """


class PaceStore(Protocol):
    """Store that adds up the requests of principals to several servers. Every method blocks."""

    def exchange(self, spent: Mapping[str, float]) -> Mapping[str, float]:
        """Add to the buckets of principals; returns the seconds until each is full again, over all servers.

        Args:
            spent: by name, the seconds for which a bucket has to fill on account of this server since the last time.

        Raises StoreAwayError.
        """


SessionKey: TypeAlias = Literal["key", "name", "sid"]
"""Properties by which sessions are ended."""


class StoredSession(NamedTuple):
    """Session of a browser as stored.

    Args:
        key: digest of the browser's cookie.
        name: of its user, without a tenant.
        data: its state, which only the holder of the cookie can read where it is secret.
        expires_at: when it ends at the latest, in seconds since the epoch.
        sid: the provider's session, with its issuer; empty without one.
        login: the sign-in that began it; empty for a token that was pasted.
        edition: counts the changes of its state.
    """

    key: str
    name: str
    data: bytes
    expires_at: float
    sid: str = ""
    login: str = ""
    edition: int = 0


class SessionStore(Protocol):
    """Store of the sessions of all servers of an organism. Every method blocks, and raises InvalidPrincipalsError."""

    def add(self, session: StoredSession, now: float) -> bool:
        """Add a session. Returns False if its sign-in has begun one already."""

    def read(self, key: str, now: float) -> StoredSession | None:
        """Read a session; None when it has ended."""

    def replace(self, session: StoredSession) -> bool:
        """Store the next edition of a session. Returns False if it has ended or another server was first."""

    def end(self, by: SessionKey, value: str) -> None:
        """End the sessions with this property. Their sign-ins begin no other."""
