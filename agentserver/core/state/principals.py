"""Names of principals: which one may bear, and when two are the same.

Owns both answers. Refuses to know who authenticated a principal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from unicodedata import is_normalized

from agentserver.characters.table import seen, skeleton
from agentserver.core.messages import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LONGEST: Final = 128
"""Characters of a principal's name."""

NOBODY: Final = frozenset({"console", "operator", "principal"})
"""Names under which the command line opens conversations without saying for whom."""


def taken(listeners: Iterable[str]) -> frozenset[str]:
    """The looks of the names that no principal may be taken for."""
    return frozenset(map(skeleton, listeners))


def unfit(name: str, taken: Collection[str]) -> str:
    """The reason why no principal can bear a name; empty when one can. ``taken`` as the function gives it."""
    if not name or name != name.strip():
        return "is empty, or begins or ends with white space"
    if len(name) > LONGEST:
        return f"has more than {LONGEST} characters"
    if not seen(name):
        return "has characters that nobody sees"
    if not is_normalized("NFKC", name):
        return "is not in the Unicode form NFKC"
    looks = skeleton(name)
    if looks.partition(".")[0] == skeleton(SYSTEM):
        return "is the name of the system, or looks like it"
    return "is the name of a listener, or looks like it" if looks in taken else ""


def same(one: str, other: str) -> bool:
    """True when two names are of one person, as far as anybody could tell."""
    return skeleton(one) == skeleton(other)
