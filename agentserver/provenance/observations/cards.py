"""Entries of an address book: outputs that show one person and have no room for an instruction.

Only the form tells an entry from a letter or a page. Whoever fills an entry can write a name and an address into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.policy import forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WORDS: Final = 5
"""Maximum words of a field of an entry."""
NAME: Final = 3
"""Minimum letters of a word that names a person."""


def find_card(names: Iterable[str], fields: Sequence[tuple[str, str, bool]]) -> frozenset[str]:
    """Find the only record of an output that shows one person under a name that the principal said; empty for others.

    The record has one address.

    Args:
        names: the arguments of the call that the principal's words hold.
        fields: path and text of the fields of the output, and whether each may name its record.
    """
    items = frozenset(item_of(path) for path, _, _ in fields) - {""}
    if len(items) != 1 or not is_card(body for _, body, _ in fields):
        return frozenset()
    within = [(body, naming) for path, body, naming in fields if item_of(path)]
    addresses = {fold(body) for body, _ in within if "@" in body and forms.names_receiver(body)}
    said = [f" {name} " for name in map(_join_words, names) if len(name) >= NAME]
    shown = [f" {_join_words(body)} " for body, naming in within if naming and not forms.names_receiver(body)]
    is_named = any(name in body for name in said for body in shown)
    return items if is_named and len(addresses) == 1 else frozenset()


def is_card(bodies: Iterable[str]) -> bool:
    """Check whether all fields are too short for an instruction."""
    return all(
        len(body.split()) <= WORDS and len(find_words(body[: forms.CHOICE])) <= 2 * WORDS for body in bodies
    )


def _join_words(text: str) -> str:
    return " ".join(word for word, _, _ in find_words(text[: forms.CHOICE]))
