"""The seam to where principals are kept, and how much each has asked of late.

Owns the needs that tokens and rates have of a store. Refuses to know the form of what is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping


class UnusableError(ValueError):
    """Principals are kept and cannot be used. The text says why."""


class AwayError(UnusableError):
    """The store does not answer. It may do so again."""


class KeptPrincipals(NamedTuple):
    """Principals as they were read.

    Args:
        edition: of what was read; another one means that it may be something else. None where nothing is kept.
        data: the bytes that are kept.
    """

    edition: Hashable
    data: bytes


class PrincipalStore(Protocol):
    """Keeps the principals of an organism as one text. Its ``str`` is its name for people. Every method blocks."""

    def edition(self) -> Hashable:
        """Look at the edition that is kept; None where nothing is, or it cannot be told. Raises AwayError."""
        ...

    def read(self) -> KeptPrincipals:
        """Read what is kept. Raises UnusableError, and AwayError of it."""
        ...

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Put what ``change`` makes of the text in its place, while nobody else changes it.

        Raises UnusableError, OSError, and what ``change`` raises; then nothing has changed.
        """
        ...


class PaceStore(Protocol):
    """Adds up what principals have asked of several servers. Every method blocks."""

    def exchange(self, spent: Mapping[str, float]) -> Mapping[str, float]:
        """Add to the buckets of principals; gives the seconds until each of them is full again, over all servers.

        Args:
            spent: by name, the seconds for which a bucket has to fill on account of this server since the last time.

        Raises AwayError.
        """
        ...
