"""Origins of notes: described when a listener writes one, learned again by the conversation that reads it.

A note never orders anything. Clean words are directory entries for the principal of their writer, and records for any
other principal. Words of a sender that untrusted text had reached count as the text of every source that the sender's
conversation had seen.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import normalize

from agentserver.core.state.principals import Trust
from agentserver.notes import SOURCES, UNKNOWN_SOURCE, MessageLineage, NoteSource, NoteSpan, SpanAuthor
from agentserver.provenance.evidence.inventory import scan_values
from agentserver.provenance.evidence.labels import Leaf, Observation, Standing, Text, TextOrigin
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.request.trusted_words import ends_as_question, find_ignored_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reading import ObservedMessage
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.request.trusted_words import TrustedWords

RECALLED: Final = "{urn:agentserver-tools:memory:v1}RecalledNotes"
"""Root element of the answer that holds notes. It counts only from a listener that keeps notes."""

KEY: Final = "name"
"""Field with the key of a note. It is no sentence: an exposed sender could replace the clean note of that name."""

VALUES: Final = 64
"""Maximum receivers of one text that a note vouches for."""

_SENTENCE: Final = re.compile(r"[^\n.!?\u3002]*(?:[.!?\u3002](?!\s|$)[^\n.!?\u3002]*)*[.!?\u3002]*\s*")


def split_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Split a text into lines and sentences, each with its offset. Nothing but blank ones is lost."""
    for found in _SENTENCE.finditer(text):
        if found.group().strip():
            yield found.start(), found.group()


# Writing


def list_own_sentences(trusted: TrustedWords) -> frozenset[str]:
    """List the principal's whole sentences, without questions, quotations, pasted lines and exclusions."""
    own = set()
    for words, ignored in zip(trusted.queries, trusted.ignored, strict=True):
        for start, sentence in split_sentences(words):
            if not (ignored.overlap(start, start + len(sentence.rstrip())) or ends_as_question(sentence)):
                own.add(_normalize(sentence))
    return frozenset(own)


def _normalize(sentence: str) -> str:
    """Normalize white space and composition, and nothing else: words that authorise are never folded."""
    return " ".join(normalize("NFC", sentence).split())


def list_fields(message: ObservedMessage) -> list[tuple[str, str]]:
    """List the fields of a message that have a text, as they are: one that is JSON stays one text."""
    payload = message.reading.codec.decode(message.element)
    found = ((each.name, format_text(getattr(payload, each.name))) for each in fields(payload))
    return [(name, text) for name, text in found if text.strip()]


def describe_spans(
    texts: Iterable[tuple[str, str]], author: SpanAuthor, trusted: TrustedWords
) -> tuple[NoteSpan, ...]:
    """List the texts of a message with their author.

    Of a text that may be a stranger's, the sentences are the principal's that the principal wrote in exactly this form.
    """
    if author is not SpanAuthor.STRANGER:
        return tuple(NoteSpan(path, text, author) for path, text in texts)
    own = list_own_sentences(trusted)
    spans: list[NoteSpan] = []
    for path, text in texts:
        for _, sentence in split_sentences(text):
            mine = path != KEY and _normalize(sentence) in own
            one = NoteSpan(path, sentence, SpanAuthor.PRINCIPAL if mine else author)
            last = spans[-1] if spans else None
            if last is not None and (last.field, last.author) == (path, one.author):
                spans[-1] = last._replace(text=last.text + sentence)
            else:
                spans.append(one)
    return tuple(spans)


def list_sources(memory: Memory, also: Iterable[str]) -> tuple[NoteSource, ...]:
    """List the sources of all untrusted text that a conversation has seen.

    Args:
        memory: of the conversation.
        also: names of further sources; an empty one is unknown.
    """
    ledger = memory.ledger
    found = dict.fromkeys(NoteSource(text.origin.source, text.origin.place) for text in ledger.texts)
    found.update(dict.fromkeys(NoteSource(text.source) for text in memory.exposure.first.values()))
    found.update(dict.fromkeys(map(NoteSource, also)))
    named = {source.name for source in found if source.place}
    listed = [one for one in found if one.name and (one.place or one.name not in named)]
    unknown = not listed or ledger.overflow or memory.exposure.everyone is not None or len(listed) > SOURCES
    unknown = unknown or any(not one.name for one in found)
    return (*listed[:SOURCES], *([NoteSource(UNKNOWN_SOURCE)] if unknown else []))


def describe_lineage(
    memory: Memory, message: ObservedMessage, principal: str, author: SpanAuthor, also: Iterable[str] = ()
) -> MessageLineage:
    """Describe the origin of a message that a listener gets.

    Args:
        memory: of the conversation.
        message: the message.
        principal: of the conversation.
        author: of its words.
        also: sources in addition to those that the conversation has learned.
    """
    if author is SpanAuthor.STRANGER and memory.trust is not Trust.ORDERS:
        also = (*also, principal)
    spans = describe_spans(list_fields(message), author, memory.ledger.asked)
    strange = any(span.author is SpanAuthor.STRANGER for span in spans)
    sources = list_sources(memory, also) if strange else ()
    groups = (group for pool in memory.ledger.private.pools for group in pool.readers)
    readers = ((),) if memory.ledger.private.overflow else tuple(dict.fromkeys(groups))
    exposed = author is SpanAuthor.STRANGER
    return MessageLineage(principal, message.sender, spans, sources, readers, exposed)


# Reading


class RecalledWords(NamedTuple):
    """Contents of the notes in an answer, by trust.

    Args:
        records: parts that no stranger wrote.
        prose: parts that a stranger may have written, once for each source.
        private: parts with limited readers.
    """

    records: tuple[Leaf, ...] = ()
    prose: tuple[Text, ...] = ()
    private: tuple[tuple[Text, tuple[tuple[str, ...], ...]], ...] = ()

    @property
    def source(self) -> str | None:
        """The source of the first untrusted words; None without any."""
        return self.prose[0].origin.source if self.prose else None


def read_recalled(message: ObservedMessage, step: int, at: float) -> RecalledWords:
    """Read the contents of the notes in an answer. Everything but clean words counts as a stranger's."""
    records: list[Leaf] = []
    prose: list[Text] = []
    private: list[tuple[Text, tuple[tuple[str, ...], ...]]] = []
    # A note is read from the payload: its text may be JSON, which the leaves would take apart.
    found: Any = message.reading.codec.decode(message.element)
    for number, note in enumerate(found.notes):
        clean: dict[str, list[str]] = {}
        strangers = [NoteSource(source.name, source.place) for source in note.sources]
        groups = tuple(tuple(filter(None, group.entries)) for group in note.readers)
        for span in note.spans:
            body, path = span.text, f"notes[{number}].{span.field}"
            origin = TextOrigin(message.sender, path, step, at, message.trace)
            if groups and body:
                private.append((Text(origin, body, Standing.RECORD), groups))
            if span.author in (SpanAuthor.PRINCIPAL, SpanAuthor.LISTENER):
                clean.setdefault(path, []).append(body)
                # To another principal they are a record, and the words of a principal who orders nothing here.
                sources = [] if note.own else [NoteSource(note.principal)]
            else:
                sources = strangers or [NoteSource(UNKNOWN_SOURCE)]
            for source in sources:
                known = origin._replace(source=source.name or UNKNOWN_SOURCE, place=source.place)
                prose.append(Text(known, body, Standing.PROSE))
        standing = Standing.DIRECTORY if note.own else Standing.RECORD
        for path, texts in clean.items():
            records += _list_records(path, "\n".join(texts), standing)
    return RecalledWords(tuple(records), tuple(text for text in prose if text.body.strip()), tuple(private))


def _list_records(path: str, body: str, standing: Standing) -> Iterator[Leaf]:
    """List a clean text, and the receivers that it names outside of quotations and exclusions."""
    yield Leaf(path, body, standing)
    ignored = find_ignored_spans(body)
    values = (value for value in scan_values(body) if value.text != body.strip())
    for number, value in enumerate(islice(values, VALUES)):
        if ignored.may_order(value.start, value.start + len(value.text)):
            yield Leaf(f"{path}_{number}", value.text, standing)


def learn_recalled(ledger: Ledger, policy: Policy, words: RecalledWords, seen: Observation) -> Ledger:
    """Add the contents of notes under their original sources.

    Args:
        ledger: of the conversation that reads them.
        policy: of the organism.
        words: of the notes.
        seen: the answer, whose leaves are replaced.
    """
    ledger = ledger.learn(policy, replace(seen, leaves=words.records))
    if words.private:
        ledger = replace(ledger, private=ledger.private.add(list(words.private), policy.limit))
    return ledger.keep(words.prose, (), (), policy.limit)


def is_recalled(keepers: frozenset[str], message: ObservedMessage) -> bool:
    """Check whether a message holds notes of a listener that keeps them."""
    return message.root == RECALLED and message.sender in keepers
