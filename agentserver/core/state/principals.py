"""Principals: their trust, their rights and their names."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import is_normalized

from agentserver.characters.table import compute_skeleton, is_all_visible
from agentserver.core.messages import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LONGEST: Final = 128
"""Characters of a principal's name."""

NOBODY: Final = frozenset({"console", "operator", "principal"})
"""Names for conversations that the command line opens without a given principal."""


HOST: Final = "mcp"
"""The principal of an MCP host at the standard streams of a process."""

PROVIDED: Final = "oidc:"
"""Beginning of the names of an identity provider's users; reserved for them on the network."""


TENANT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
"""Name of a tenant."""

_TENANT_PART: Final = re.compile(rf"{re.escape(PROVIDED)}({TENANT.pattern})/")

LOCAL: Final = NOBODY | {HOST}
"""Names of this machine's own principals, who need no token; reserved on the network."""


def find_scope(tenant: str) -> str:
    """Return the scope of a tenant: the beginning of its principals' names, which is no principal's whole name."""
    return f"{PROVIDED}{tenant}/"


def find_tenant(name: str) -> str:
    """Return the tenant of a principal; empty without one."""
    found = _TENANT_PART.match(name)
    return "" if found is None else found[1]


def is_operator(owner: str | None) -> bool:
    """Check whether an owner is all principals, or those of a tenant."""
    return owner is None or is_scope(owner)


def is_scope(owner: str | None) -> bool:
    """Check whether an owner is the scope of a tenant, and not a single principal."""
    return (
        owner is not None and (found := _TENANT_PART.match(owner)) is not None and found.end() == len(owner)
    )


def owns(owner: str | None, principal: str) -> bool:
    """Check whether an owner is this principal, or the scope of its tenant; None owns everything."""
    return owner is None or owner == principal or (is_scope(owner) and principal.startswith(owner))


class Trust(StrEnum):
    """Trust in a principal's messages.

    ``ORDERS``: they authorise. ``RELAY``: they neither authorise nor accuse, like an agent's. ``STRANGER``: they are
    untrusted text, like a source's.
    """

    ORDERS = "orders"
    RELAY = "relay"
    STRANGER = "stranger"


def choose_weaker(one: Trust, other: Trust) -> Trust:
    """Return the lower of two trusts."""
    return min(one, other, key=(Trust.STRANGER, Trust.RELAY, Trust.ORDERS).index)


class Rights(NamedTuple):
    """Rights of a principal in a conversation, for its whole life.

    Args:
        trust: in its messages.
        may: the only listeners that it may address; None for all.
        dry: listeners whose handlers are not called, in a dry run, which does no external effect either; else None.
        payers: names of the groups whose budgets its charges count in.
    """

    trust: Trust = Trust.ORDERS
    may: tuple[str, ...] | None = None
    dry: tuple[str, ...] | None = None
    payers: tuple[str, ...] = ()


FULL: Final = Rights()
"""The default rights, also of conversations that were stored without rights."""


class Principal(NamedTuple):
    """Authenticated opener of a conversation.

    Args:
        name: for people and for the record; never a listener's.
        trust: in its messages. A program that speaks for others, such as an MCP host, is a stranger.
        may: the only listeners that it may address; None for all.
        dry: as of ``Rights``.
        payers: as of ``Rights``.
    """

    name: str
    trust: Trust = Trust.ORDERS
    may: tuple[str, ...] | None = None
    dry: tuple[str, ...] | None = None
    payers: tuple[str, ...] = ()

    @classmethod
    def of(cls, principal: Principal | str) -> Principal:
        """Normalise a principal; a bare name has full rights.

        Raises ValueError for an unknown trust.
        """
        if isinstance(principal, str):
            return cls(principal)
        may = None if principal.may is None else tuple(principal.may)
        return cls(principal.name, Trust(principal.trust), may, principal.dry, tuple(principal.payers))

    @property
    def rights(self) -> Rights:
        """All but the name."""
        rights = Rights(self.trust, self.may, self.dry, self.payers)
        return FULL if rights == FULL else rights  # one for all of the many conversations with full rights


def reserved_looks(listeners: Iterable[str]) -> frozenset[str]:
    """Return the visual forms of names that no principal may resemble."""
    return frozenset(map(compute_skeleton, listeners))


def explain_unfit(name: str, taken: Collection[str]) -> str:
    """Return why a name is not allowed, or an empty text. ``taken`` is from ``reserved_looks``."""
    if not name or name != name.strip():
        return "is empty, or begins or ends with white space"
    if len(name) > LONGEST:
        return f"has more than {LONGEST} characters"
    if not is_all_visible(name):
        return "has characters that nobody sees"
    if not is_normalized("NFKC", name):
        return "is not in the Unicode form NFKC"
    looks = compute_skeleton(name)
    if looks.partition(".")[0] == compute_skeleton(SYSTEM):
        return "is the name of the system, or looks like it"
    return "is the name of a listener, or looks like it" if looks in taken else ""


def unknown_to_network(name: str) -> str:
    """Return why a principal with a token may not have a name, or an empty text."""
    own = compute_skeleton(name.rstrip("-0123456789")) in reserved_looks(
        LOCAL
    )  # one that a listener has gets a number
    if compute_skeleton(name).startswith(compute_skeleton(PROVIDED)):
        return f"begins with {PROVIDED} or looks like it, as only names of an identity provider's users do"
    return explain_unfit(name, ()) or (
        "is the name of a principal of this machine, or looks like it" if own else ""
    )


def is_same_name(one: str, other: str) -> bool:
    """Return whether two names look the same."""
    return compute_skeleton(one) == compute_skeleton(other)
