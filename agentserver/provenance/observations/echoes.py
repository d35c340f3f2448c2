"""Values that a listener was asked with, which it may repeat or join: so it says nothing of its own.

Owns the comparison. Refuses to know what such a value is worth instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.leaves import text_of, typed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.evidence.labels import Leaf

LONGEST: Final = 100
"""Longest evidence form of a value that is taken for joined: no field guarantees a longer one."""
JOINED: Final = 8
"""Shortest evidence form of a value that is taken for joined; a shorter one is made of short parts by chance."""


class Echoes:
    """The values that a listener was asked with: it says nothing of its own by repeating them or joining them."""

    def __init__(self, arguments: Iterable[Leaf]) -> None:
        said = tuple(arguments)
        self._whole = {_value(text_of(leaf.value)) for leaf in said}
        self._forms = {fold(text_of(leaf.value)) for leaf in said} - {""}
        self._lengths = {len(form) for form in self._forms if len(form) <= LONGEST}

    def hold(self, body: str) -> bool:
        """True for a value that has no other origin."""
        form = fold(body)
        return _value(body) in self._whole or (JOINED <= len(form) <= LONGEST and self._join(form))

    def _join(self, form: str) -> bool:
        """True when a value is nothing but arguments, one after the other."""
        reached, waiting = {0}, [0]
        while waiting:
            place = waiting.pop()
            ends = {place + each for each in self._lengths if form[place : place + each] in self._forms}
            waiting += ends - reached
            reached |= ends
        return len(form) in reached


def _value(body: str) -> str:
    """A number by its value, anything else by its evidence form: two moments of one day are not one value."""
    kind = typed(body) or ""
    return kind if kind.startswith("number") else fold(body)
