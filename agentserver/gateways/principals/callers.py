"""Callers: principals that have shown a token, with what their role lets them see and do.

Owns the roles. Refuses to know tokens, and by which protocol somebody calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentserver.core.state.principals import Principal

_RATE: Final = re.compile(r"([1-9][0-9]{0,5})/(s|m|h)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Role(StrEnum):
    """The part of the organism that somebody sees and decides about.

    ``USER``: its own conversations. ``OPERATOR``: everybody's, approvals and dead letters; it decides. ``VIEWER``: what
    an operator sees, redacted; it changes nothing. ``WORKER``: the calls of one listener, which it answers.
    """

    USER = "user"
    OPERATOR = "operator"
    VIEWER = "viewer"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests in so much time, as a bucket that is full at first and fills steadily.

    Args:
        count: the requests, which may come at once.
        unit: s, m or h: the time in which as many may come again.
    """

    count: int
    unit: str

    @classmethod
    def of(cls, text: str) -> Rate:
        """Read a rate such as 10/s. Raises ValueError for anything else."""
        found = _RATE.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no rate: one is a number from 1 to 999999 and /s, /m or /h, such as 10/s"
            )
        return cls(int(found[1]), found[2])

    @property
    def each(self) -> float:
        """Seconds until one more may come."""
        return _SECONDS[self.unit] / self.count

    def taken(self, full: float, now: float) -> tuple[float, float]:
        """Take one out of a bucket that is full from a time on.

        Gives the seconds until there is one, 0.0 for now, and the time from which the bucket is full after that.
        """
        after = max(full, now) + self.each
        wait = after - now - self.each * self.count
        return (wait, full) if wait > self.each * 1e-9 else (0.0, after)  # sums of floats are not exact

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal that has been authenticated, as the file of principals has it.

    Args:
        principal: its name, trust and targets, as conversations are opened for it.
        role: what it sees and decides.
        rate: requests that it may make.
        open: conversations that it may have open at a time.
        grant: the digest of its token, which tells one token from the next; empty for no token.
        listener: the one whose calls it answers, for a worker; empty for all others.
    """

    principal: Principal
    role: Role
    rate: Rate
    open: int
    grant: str = field(default="", repr=False)
    listener: str = ""

    @property
    def name(self) -> str:
        """The principal's name, under which it stands on the record."""
        return self.principal.name

    @property
    def sees(self) -> str | None:
        """The principal whose conversations it sees: itself; None for everybody's."""
        return self.name if self.role in (Role.USER, Role.WORKER) else None

    @property
    def redacted(self) -> bool:
        """True when it is shown no content."""
        return self.role is Role.VIEWER

    @property
    def acts(self) -> bool:
        """True when it may open conversations, send, cancel and close."""
        return self.role in (Role.USER, Role.OPERATOR)

    @property
    def decides(self) -> bool:
        """True when it may answer approvals and deal with dead letters."""
        return self.role is Role.OPERATOR
