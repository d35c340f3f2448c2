"""Sole records of trusted listeners that the principal chose in several steps, or that other words found.

An agent looks up what the principal means: by a value of a record that the principal chose, by the name on the
document that the principal named, or by its own words for what the principal asks, such as a role in another language.
A stranger's word must never select a record: a word of the agent is its own only if no untrusted text has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.labels import Finder, Standing
from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.observations.occurrences import PLACES, TooManyValues, find_occurrence
from agentserver.provenance.observations.records import build_name_key
from agentserver.provenance.policy import forms
from agentserver.provenance.request.languages import is_common
from agentserver.provenance.request.trusted_words import ENDING, STEM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentserver.provenance.evidence.labels import Text, TextOrigin
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.observations.records import Records
    from agentserver.provenance.observations.untrusted_texts import UntrustedTexts
    from agentserver.provenance.policy.declarations import Policy

SELECTORS: Final = 8
"""Maximum selectors of a look-up that are not the principal's."""
TEXTS: Final = 64
"""Maximum untrusted texts of a conversation in which a named document selects a record."""
KEY: Final = 4
"""Minimum characters of a value with a digit that identifies a record, whoever repeats it."""


class KnownTexts(NamedTuple):
    """Texts and records that a conversation knows when a look-up is answered.

    Args:
        untrusted: its untrusted texts.
        records: its records.
        policy: the declared policy.
        is_sole: whether an output is one record.
        carried: whether the caller may remember text of other conversations.
    """

    untrusted: UntrustedTexts
    records: Records
    policy: Policy
    is_sole: Callable[[TextOrigin], bool]
    carried: bool


def find_finder(known: KnownTexts, selectors: Sequence[str]) -> Finder | None:
    """Find whose words selected the sole record of a look-up, by the weakest of its selectors.

    None if a stranger may have selected it.

    Args:
        known: before the answer.
        selectors: the arguments of the look-up that are not the principal's.
    """
    if len(selectors) > SELECTORS:
        return None
    finders = [_find_owner(known, body) for body in selectors]
    if None in finders:
        return None
    return next((one for one in (Finder.AGENT, Finder.DOCUMENT) if one in finders), Finder.PRINCIPAL)


def _find_owner(known: KnownTexts, body: str) -> Finder | None:
    if len(body) > forms.CHOICE:
        return None
    chosen = any(_is_chosen(known, text) for text in known.records.find(build_name_key(body)))
    if chosen and is_key(body):
        return Finder.PRINCIPAL
    try:
        holders = _find_holders(known, body)
        if holders or find_occurrence(known.untrusted, body) is not None:
            return Finder.DOCUMENT if _are_named_documents(known, holders, body) else None
        has_strange_word = _has_strange_word(known, body)
    except TooManyValues:
        return None
    if chosen:
        return Finder.PRINCIPAL
    return None if known.carried or has_strange_word else Finder.AGENT


def _is_chosen(known: KnownTexts, text: Text) -> bool:
    return text.chosen and text.standing is not Standing.OWN and not _is_strangers(known, text)


def _is_strangers(known: KnownTexts, text: Text) -> bool:
    return known.policy.classify(text.origin.source).source


def _has_strange_word(known: KnownTexts, body: str) -> bool:
    """Check whether a stranger's text has a form of a word of a text; True for one without a word that tells."""
    words = [word for word, _, _ in find_words(body) if len(word) > 1 and not is_common(word)]
    stems = [fold(word)[: max(STEM, len(word) - ENDING)].encode() for word in words]
    indexes = known.untrusted.words, known.untrusted.wrapped.words
    return (
        not stems
        or any(index.find_words(stem, 1) for index in indexes for stem in stems)
        or any(_list_strange_records(known, stem) for stem in stems)
    )


def _are_named_documents(known: KnownTexts, holders: Sequence[Text], body: str) -> bool:
    """Check whether texts are those of all documents that the principal named, and of no other one.

    Each document is the only record of its output: of several ones, a text may say which one is meant. A key in a field
    of its own may be of one document alone, since no running text gives it.
    """
    texts = known.untrusted.texts
    if not holders or not all(text.asked for text in holders) or len(texts) > TEXTS:
        return False
    if not all(known.is_sole(text.origin) or not item_of(text.origin.path) for text in holders):
        return False
    if is_key(body) and all(text.standing is not Standing.PROSE for text in holders):
        return True
    return {text.origin.step for text in texts if text.asked} <= {text.origin.step for text in holders}


def is_key(body: str) -> bool:
    """Check whether a value identifies a record, whoever repeats it: it has a digit and is no short number."""
    return len(body) >= KEY and any(map(str.isdigit, body))


def _find_holders(known: KnownTexts, body: str) -> list[Text]:
    """Find a stranger's texts and records that hold a value as it is, but for marks and letter case.

    Raises:
        TooManyValues: there are more than are looked at, or a text that was decoded holds it.
    """
    form = fold_bytes(body)
    wrapped = known.untrusted.wrapped
    if len(form) >= SPAN:
        numbers = known.untrusted.index.find_owners(form)
        inner = bool(wrapped.index.find_owners(form))
    else:
        numbers = {number for number, _ in _list_words(known.untrusted.words, form)}
        inner = bool(wrapped.words.find_words(form, 1))
    if inner:
        raise TooManyValues
    texts = (known.untrusted.texts[number] for number in sorted(numbers))
    return [text for text in (*texts, *_list_strange_records(known, form)) if form in fold_bytes(text.body)]


def _list_strange_records(known: KnownTexts, form: bytes) -> list[Text]:
    """List the records of sources with a word that begins as an evidence form does."""
    numbers = {number for number, _ in _list_words(known.records.words, form)}
    texts = (known.records.entries[number] for number in sorted(numbers))
    return [text for text in texts if _is_strangers(known, text)]


def _list_words(words: WordIndex, form: bytes) -> tuple[tuple[int, int], ...]:
    places = words.find_words(form, PLACES)
    if len(places) == PLACES:
        raise TooManyValues
    return places
