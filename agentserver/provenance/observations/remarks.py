"""Remarks on a document: records in a list of it that have running text of their own, such as comments.

The principal named an invoice. Its author is not the author of a comment on it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import IN_ITEM
from agentserver.provenance.policy import forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.provenance.observations.assessment import AssessedLeaf

_ENTRY: Final = re.compile(r"(?P<document>(?:.*\.)?)[^.\[\]]+\[\d+\]")
_IN_ENTRY: Final = re.compile(re.escape(IN_ITEM))
_SENTENCE_END: Final = re.compile(r"[.!?;؟]\s|[。！？]|[.!?]\Z|\n")


def find_remarks(leaves: Sequence[AssessedLeaf]) -> frozenset[str]:
    """Find the paths of the fields in remarks on the documents of an output.

    A document has a text of sentences or lines next to the list. Messages under a mere title are no remarks, and
    neither are the lines of an order that have no running text.
    """
    if not any(IN_ITEM in one.path for one in leaves):
        return frozenset()
    prose = [one for one in leaves if one.prose and forms.has_prose(one.body)]
    speaking = {one.path.rpartition(".")[0] for one in leaves if _speaks(one)}
    documents = {one.path[: -len(one.path.rpartition(".")[2])] for one in prose if _has_sentence(one.body)}
    remarks = {each for each in speaking if _is_entry_of(each, documents)}
    return frozenset(one.path for one in leaves if remarks and _is_in_any(one.path, remarks))


def _speaks(leaf: AssessedLeaf) -> bool:
    """Check whether a text is running text, or ends as a sentence of a few words does."""
    return leaf.prose and (forms.has_prose(leaf.body) or (" " in leaf.body and _has_sentence(leaf.body)))


def _has_sentence(body: str) -> bool:
    return _SENTENCE_END.search(body.strip()) is not None


def _is_in_any(path: str, remarks: set[str]) -> bool:
    """Check whether a path is within one of some entries of lists."""
    return any(path[: end.start() + 1] in remarks for end in _IN_ENTRY.finditer(path))


def _is_entry_of(path: str, documents: set[str]) -> bool:
    entry = _ENTRY.fullmatch(path)
    return entry is not None and entry["document"] in documents
