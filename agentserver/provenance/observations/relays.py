"""Texts that listeners passed on without being sources, which show the path of untrusted text in explanations.

No decision depends on them: a text beyond the limit is missing from an explanation only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.labels import Hop
from agentserver.provenance.observations.lazy import Incremental

if TYPE_CHECKING:
    from collections.abc import Sequence

RELAYED: Final = 1 << 18
"""Characters of relayed text that one conversation keeps."""

SLICE: Final = 1 << 13
"""Characters after which the index is extended at once."""

HOPS: Final = 64
"""Listeners that are reported for one piece of text."""

LOOKED_AT: Final = 1024
"""Texts that are searched for a piece that is shorter than a span."""


@dataclass(frozen=True, slots=True)
class RelayedText:
    """Text of a listener that had seen the first ``after`` untrusted texts."""

    hop: Hop
    body: str
    after: int

    def dump(self) -> list[Any]:
        """Convert it to plain data for JSON."""
        return [self.hop.listener, self.hop.path, self.hop.step, self.body, self.after]

    @classmethod
    def load(cls, data: Sequence[Any]) -> RelayedText:
        """Restore it from ``dump``."""
        listener, path, step, body, after = data
        return cls(Hop(listener, path, step), body, after)


@dataclass(frozen=True, slots=True)
class Relays:
    """Relayed texts in order, within the limit; ``size`` counts their characters."""

    entries: tuple[RelayedText, ...] = ()
    size: int = 0
    _spans: Incremental[RelayedText, Index] = field(
        default_factory=lambda: Incremental(Index()), compare=False, repr=False
    )

    def add(self, more: Sequence[RelayedText]) -> Relays:
        """Append texts if there is room for all of them."""
        size = self.size + sum(len(one.body) for one in more)
        if not more or size > RELAYED:
            return self
        entries = (*self.entries, *more)
        spans = self._spans.extend_to(len(entries))
        if size // SLICE > self.size // SLICE:
            spans.compute(entries, _extend_index)
        return Relays(entries, size, spans)

    def find_hops(self, piece: bytes, number: int) -> tuple[Hop, ...]:
        """Find the listeners that passed on a piece, or a span of it, after an untrusted text.

        Args:
            piece: the evidence form that untrusted text and a call have in common.
            number: of the untrusted text.
        """
        if not piece or not self.entries:
            return ()
        if len(piece) >= SPAN:
            found = self._spans.compute(self.entries, _extend_index).owners(piece)
            said = (self.entries[one] for one in sorted(found))
        else:
            said = (one for one in self.entries[:LOOKED_AT] if piece in fold_bytes(one.body))
        return tuple(dict.fromkeys(one.hop for one in said if one.after > number))[:HOPS]


def _extend_index(index: Index, more: Sequence[RelayedText]) -> Index:
    return index.add(tuple(fold_bytes(one.body) for one in more)) if more else index
