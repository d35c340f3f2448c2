"""The words of listeners that are no source themselves, kept to tell which way untrusted words went.

Owns the question which of them passed on a piece of text, asked when a finding is explained. Refuses to decide
anything by it: what is beyond the bound is missing in an explanation, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.labels import Hop
from agentserver.provenance.observations.derived import Derived

if TYPE_CHECKING:
    from collections.abc import Sequence

RELAYED: Final = 1 << 18
"""Characters of what was passed on that one conversation keeps."""

SLICE: Final = 1 << 13
"""Characters of which the index is made at once."""

TOLD: Final = 64
"""Listeners that are told of one piece."""

LOOKED_AT: Final = 1024
"""Texts that are looked through for a piece that is shorter than a span."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """Words that a listener said after ``after`` untrusted texts were known."""

    hop: Hop
    body: str
    after: int

    def dump(self) -> list[Any]:
        """As plain data for JSON."""
        return [self.hop.listener, self.hop.path, self.hop.step, self.body, self.after]

    @classmethod
    def load(cls, data: Sequence[Any]) -> Relayed:
        """The same, read back."""
        listener, path, step, body, after = data
        return cls(Hop(listener, path, step), body, after)


@dataclass(frozen=True, slots=True)
class Relays:
    """All that was passed on, in order, as far as it is kept; ``size`` is its length in characters."""

    entries: tuple[Relayed, ...] = ()
    size: int = 0
    _spans: Derived[Relayed, Index] = field(
        default_factory=lambda: Derived(Index()), compare=False, repr=False
    )

    def add(self, more: Sequence[Relayed]) -> Relays:
        """The same with more, as far as there is room for all of it."""
        size = self.size + sum(len(one.body) for one in more)
        if not more or size > RELAYED:
            return self
        entries = (*self.entries, *more)
        spans = self._spans.extend_to(len(entries))
        if size // SLICE > self.size // SLICE:
            spans.of(entries, _indexed)
        return Relays(entries, size, spans)

    def passing(self, piece: bytes, number: int) -> tuple[Hop, ...]:
        """The listeners that said a piece, or a span of it, after untrusted text ``number``.

        Args:
            piece: the evidence form of what untrusted text and a call have in common.
            number: of the untrusted text.
        """
        if not piece or not self.entries:
            return ()
        if len(piece) >= SPAN:
            found = self._spans.of(self.entries, _indexed).owners(piece)
            said = (self.entries[one] for one in sorted(found))
        else:
            said = (one for one in self.entries[:LOOKED_AT] if piece in fold_bytes(one.body))
        return tuple(dict.fromkeys(one.hop for one in said if one.after > number))[:TOLD]


def _indexed(index: Index, more: Sequence[Relayed]) -> Index:
    return index.add(tuple(fold_bytes(one.body) for one in more)) if more else index
