"""Search terms of conversations: facets of their steps and words of their messages, the same in every engine."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import normalize

from agentserver.contract import Code
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import ApprovalGiven

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.core.encoding.codecs import StoredRecord


class Facet(NamedTuple):
    """Property that a conversation has from some step on.

    Args:
        kind: ``listener``, ``code``, ``approver`` or ``mark``.
        value: a name or a code; for a mark, ``refused`` or ``failed``.
    """

    kind: str
    value: str


_new = tuple.__new__

_MARKED: Final = frozenset({Event.REFUSED, Event.FAILED, Event.APPROVED})
"""Events that may add a facet without a code."""

REFUSED: Final = Facet("mark", "refused")
FAILED: Final = Facet("mark", "failed")

TEXT: Final = 65_536
"""Bytes of a message whose words are found; later ones are not."""

LONGEST: Final = 64
"""Characters of a word that are compared."""

_MARKUP: Final = re.compile(rb"<(?:(?:from|to|thread)>[^<]*</)?[^<>]*>")
_WORD: Final = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")
"""A word is a run of letters and digits; in scripts without spaces each character is one."""


def list_facets(recipients: Iterable[str], records: Iterable[AuditRecord | StoredRecord]) -> set[Facet]:
    """List the facets that a step adds to its conversation.

    A listener counts from the first message to it, even one that a rule refused.

    Args:
        recipients: of the messages that it sent.
        records: of the step.
    """
    found = set()
    for name in recipients:
        found.add(_new(Facet, ("listener", name)))
    for record in records:
        event, code = record.event, record.code
        if code:
            found.add(Facet("code", code))
        elif event not in _MARKED:
            continue
        if event is Event.REFUSED:
            found.add(REFUSED)
            if code == Code.DENIED:  # by a rule, which judges only messages to listeners that exist
                found.add(Facet("listener", _find_receiver(record)))
        elif event is Event.FAILED:
            found.add(FAILED)
        elif event is Event.APPROVED and isinstance(record.detail, ApprovalGiven):
            found.add(Facet("approver", record.detail.by))
    return found


def _find_receiver(record: AuditRecord | StoredRecord) -> str:
    if isinstance(record, AuditRecord):
        return record.to
    return "" if record.about is None else record.about.to


_ASCII: Final = "".join([char.lower() if char.isalnum() else " " for char in map(chr, range(128))])
"""Replacements of the ASCII characters, which leave the words that ``_WORD`` finds, in a third of the time."""


def split_words(text: str) -> set[str]:
    """Split a text into the words that are compared, without case."""
    if text.isascii():
        return {word[:LONGEST] for word in set(text.translate(_ASCII).split())}
    return {word[:LONGEST] for word in _WORD.findall(normalize("NFKC", text).casefold())}


def find_words(messages: Iterable[bytes]) -> set[str]:
    """Find the words in the text of messages, without markup, names and ids of their envelopes."""
    text = b" ".join(_MARKUP.sub(b" ", message[:TEXT]) for message in messages).decode("utf-8", "replace")
    return split_words(unescape(text) if "&" in text else text)
