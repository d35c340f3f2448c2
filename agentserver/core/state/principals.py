"""Principals: their trust, their rights and their names."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import is_normalized

from agentserver.characters.table import is_all_visible, skeleton
from agentserver.core.messages import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LONGEST: Final = 128
"""Characters of a principal's name."""

NOBODY: Final = frozenset({"console", "operator", "principal"})
"""Names under which the command line opens conversations without saying for whom."""


HOST: Final = "mcp"
"""The principal of an MCP host at the standard streams of a process."""

LOCAL: Final = NOBODY | {HOST}
"""Names of this machine's own principals, who show no token. None of the network bears them."""


class Trust(StrEnum):
    """The weight of a principal's words.

    ``ORDERS``: they are trusted words and authorise. ``RELAY``: they neither authorise nor accuse, as those of an agent
    do. ``STRANGER``: they are untrusted text, as those of a source are.
    """

    ORDERS = "orders"
    RELAY = "relay"
    STRANGER = "stranger"


def weaker(one: Trust, other: Trust) -> Trust:
    """The lower one of two trusts."""
    return min(one, other, key=(Trust.STRANGER, Trust.RELAY, Trust.ORDERS).index)


class Rights(NamedTuple):
    """The rights that a principal has in a conversation, for as long as it lasts.

    Args:
        trust: what its words count for.
        may: the only listeners that it may address; None for all.
    """

    trust: Trust = Trust.ORDERS
    may: tuple[str, ...] | None = None


FULL: Final = Rights()
"""The rights of a principal of whom nothing is said, and of every conversation that was kept without them."""


class Principal(NamedTuple):
    """The one who opens a conversation, as the gateway that has authenticated it names it.

    Args:
        name: for people and for the record; no listener's.
        trust: what its words count for. A program that speaks for somebody else, such as an MCP host, is a stranger.
        may: the only listeners that it may address; None for all.
    """

    name: str
    trust: Trust = Trust.ORDERS
    may: tuple[str, ...] | None = None

    @classmethod
    def of(cls, principal: Principal | str) -> Principal:
        """The principal; a bare name is that of one who gives orders to everybody.

        Raises ValueError for a trust that there is not.
        """
        if isinstance(principal, str):
            return cls(principal)
        may = None if principal.may is None else tuple(principal.may)
        return cls(principal.name, Trust(principal.trust), may)

    @property
    def rights(self) -> Rights:
        """All but the name."""
        return Rights(self.trust, self.may)


def reserved_looks(listeners: Iterable[str]) -> frozenset[str]:
    """The looks of the names that no principal may be taken for."""
    return frozenset(map(skeleton, listeners))


def unfit(name: str, taken: Collection[str]) -> str:
    """The reason why no principal can bear a name; empty when one can. ``reserved_looks`` as the function gives it."""
    if not name or name != name.strip():
        return "is empty, or begins or ends with white space"
    if len(name) > LONGEST:
        return f"has more than {LONGEST} characters"
    if not is_all_visible(name):
        return "has characters that nobody sees"
    if not is_normalized("NFKC", name):
        return "is not in the Unicode form NFKC"
    looks = skeleton(name)
    if looks.partition(".")[0] == skeleton(SYSTEM):
        return "is the name of the system, or looks like it"
    return "is the name of a listener, or looks like it" if looks in taken else ""


def unknown_to_network(name: str) -> str:
    """The reason why no principal with a token can have a name; empty for a permitted name."""
    own = skeleton(name.rstrip("-0123456789")) in reserved_looks(
        LOCAL
    )  # one that a listener has gets a number
    return unfit(name, ()) or ("is the name of a principal of this machine, or looks like it" if own else "")


def is_same_name(one: str, other: str) -> bool:
    """True when two names are of one person, as far as anybody could tell."""
    return skeleton(one) == skeleton(other)
