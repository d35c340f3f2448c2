"""Observations as the record index takes them: which leaves are kept elsewhere, and which only repeat a question.

Owns that. Refuses to judge a leaf's worth.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.leaves import text_of, typed
from agentserver.provenance.planned.records import Saying

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentserver.provenance.evidence.labels import Observation, Text
    from agentserver.provenance.planned.records import RecordIndex
    from agentserver.provenance.request.trusted_words import TrustedWords


def recorded(
    index: RecordIndex,
    seen: Observation,
    answers: tuple[int, ...],
    kept: Sequence[Text],
    asked: TrustedWords,
) -> RecordIndex:
    """The index with an observation.

    Args:
        index: of what came before.
        seen: the observation, with every leaf of it.
        answers: numbers of the plan's steps whose call it answered.
        kept: the texts and records that the ledger made of it, texts first.
        asked: what the principal said: what an answer repeats of it has an origin.
    """
    own = [(text.origin.path, text.body) for text in kept]
    known = set(own)
    pairs = [(leaf.path, text_of(leaf.value)) for leaf in seen.leaves]
    others = tuple(pair for pair in pairs if pair[1].strip() and pair not in known)
    questions = {_key(text_of(leaf.value)) for leaf in seen.arguments} - {""}
    echoes = frozenset(
        path for path, body in pairs if body and _key(body) in questions and not asked.mentions(body)
    )
    saying = Saying(seen.source, seen.step, seen.trace, answers, echoes, others)
    return index.add(saying, own)


def _key(body: str) -> str:
    """The common form of two spellings of one value. Numbers and dates compare as such: ``10.0`` repeats no ``100``."""
    return typed(body) or fold(body)


def leaves_of(texts: Iterable[Text]) -> dict[tuple[str, int, str], list[tuple[str, str]]]:
    """Path and text of what a ledger keeps, by observation; what is wrapped in a text is no leaf of its own."""
    found: defaultdict[tuple[str, int, str], list[tuple[str, str]]] = defaultdict(list)
    for text in texts:
        if not text.origin.via:
            origin = text.origin
            found[origin.source, origin.step, origin.trace].append((origin.path, text.body))
    return found
