"""The summariser: picks the sentences of a text that say most about a topic."""

from __future__ import annotations

import re
from collections import Counter

from agentserver import HandlerMetadata, HandlerResponse
from listeners.payloads import Summarise, Summary

SENTENCES = 2
"""Number of sentences in a summary."""

_END = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W\d_]{4,}")


async def summarise(payload: Summarise, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with a summary."""
    return HandlerResponse.respond(Summary(payload.source, extract(payload.text, payload.topic)))


def extract(text: str, topic: str, sentences: int = SENTENCES) -> str:
    """Extract the best sentences in their original order; at most 2000 characters.

    The score of a sentence is the mean frequency of its words in the text; words of the topic count threefold. Headings
    and other pieces without a full stop are skipped.
    """
    found = [piece for piece in _END.split(text.strip()) if piece.endswith((".", "!", "?"))]
    weight = Counter(_words(text))
    for word in _words(topic):
        weight[word] *= 3
    order = sorted(range(len(found)), key=lambda i: (-_score(found[i], weight), i))
    return " ".join(found[i] for i in sorted(order[:sentences]))[:2000]


def _score(sentence: str, weight: Counter[str]) -> float:
    words = _words(sentence)
    return sum(weight[word] for word in words) / len(words) if words else 0.0


def _words(text: str) -> list[str]:
    return [word.lower().removesuffix("s") for word in _WORD.findall(text)]
