"""The authority behind a value: the principal's words, the operator's lists, records, fields that are accepted.

Owns every reason for which a value is allowed. Refuses to know what becomes of one for which there is none. Compares
authority forms alone, never evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import matching as entry_for
from agentserver.provenance.evidence.authority import mention
from agentserver.provenance.evidence.destinations import PlaceForm, unmarked
from agentserver.provenance.evidence.inventory import exact
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.leaves import typed, yearless
from agentserver.provenance.evidence.words import head_of, lead_of, standing
from agentserver.provenance.exits import answers
from agentserver.provenance.policy.paths import bare, means
from agentserver.provenance.seen.untrusted import kind_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.policy.declarations import ArgumentRule

_NAMES_THINGS: Final = {Standing.RECORD, Standing.DIRECTORY, Standing.OWN}


def may_receive(case: Case, rule: ArgumentRule, place: Destination) -> bool:
    """True when the operator, the principal, a directory or an accepted field names a destination."""
    if entry_for(case.policy.allow, place):
        return True
    if place.form is PlaceForm.NONE:
        return False
    if place.written in rule.values or (case.policy.query_authorises and case.ledger.asked.names(place)):
        return True
    return listed(case, place) or accepted(case, rule, place.written, place)


def listed(case: Case, place: Destination) -> bool:
    """True when a directory holds a destination."""
    return any(True for _ in case.ledger.records.directory(place))


def ordered(case: Case, place: Destination) -> bool:
    """True when the operator or the principal named a destination, or it is the principal's own."""
    if entry_for(case.policy.allow, place) or case.ledger.asked.names(place):
        return True
    return any(text.standing is Standing.OWN for text in case.ledger.records.directory(place))


def may_choose(case: Case, argument: Argument) -> bool:
    """True when the operator, the principal, a record of the right kind or an accepted field made a choice."""
    if argument.body in argument.rule.values:
        return True
    return said(case, argument) or recorded(case, argument) or accepted(case, argument.rule, argument.body)


def said(case: Case, argument: Argument) -> bool:
    """True when the principal's words hold a choice, in any case of letters and any spelling of a number or date."""
    asked, kind = case.ledger.asked, typed(argument.leaf.value)
    if asked.chooses(argument.body):
        return True
    return kind is not None and not asked.kinds.isdisjoint({kind, yearless(kind) or kind})


def recorded(case: Case, argument: Argument) -> bool:
    """True when a record holds a choice: of the kind that the argument chooses, where one is declared."""
    return any(record_texts(case, argument)) or (
        not argument.rule.id and any(_told(case, argument.body.strip()))
    )


def asked_for(case: Case, argument: Argument) -> bool:
    """True when a record of a document that the principal named holds a choice."""
    return any(text.asked for text in record_texts(case, argument))


def formed(case: Case, argument: Argument) -> bool:
    """True when only the form of fields that nobody declared makes records of a choice: anybody may fill those."""
    found = [*record_texts(case, argument)]
    return bool(found) and all(text.formed and not text.asked for text in found)


def record_texts(case: Case, argument: Argument) -> Iterator[Text]:
    """The sure records that hold a choice, of the kind that the argument chooses."""
    body, wanted = argument.body.strip(), argument.rule.id
    bodies = dict.fromkeys(form for each in (body, unmarked(body)) for form in (each.lower(), each))
    keys = (*(f"name {form}" for form in bodies), typed(argument.leaf.value) or "")
    for text in (text for key in keys for text in case.ledger.records.find(key)):
        if text.standing in _NAMES_THINGS and (not wanted or text.id == wanted):
            yield text


def _told(case: Case, body: str) -> Iterator[Text]:
    """The words of listeners that are no source, in which a choice stands as a whole token."""
    records = case.ledger.records
    for text in _standing_in(case, records.words, records.entries, body):
        if not case.policy.classify(text.origin.source).source and text.standing is Standing.RECORD:
            yield text


def accepted(case: Case, rule: ArgumentRule, body: str, place: Destination | None = None) -> bool:
    """True when a field that an argument accepts holds a value: as a record, or in a document that was asked for."""
    if not rule.accepts:
        return False
    if "record" in rule.accepts and place is not None:
        chosen = [other.leaf for other in case.arguments if other.rule.role is Role.SELECTOR]
        if answers(case.ledger, chosen, place):
            return True
    own = (f"name {body.strip().lower()}", f"name {body.strip()}")
    keys = (*(f"place {key}" for key in place.alike), *own) if place else own
    known = (text for key in keys for text in case.ledger.records.find(key))
    held = (text for text in _holding(case, body, place) if text.asked)
    found = (*known, *held, *_counting(case, rule, body))
    return any(_from(text, rule.accepts) for text in found)


def _counting(case: Case, rule: ArgumentRule, body: str) -> Iterator[Text]:
    """The texts of documents that were asked for which say a quantity or a time, in any spelling."""
    kind = typed(body) if rule.role in {Role.QUANTITY, Role.TIME} else None
    if kind is None:
        return
    table, texts = case.ledger.untrusted.kinds.table, case.ledger.texts
    for key in filter(None, (kind, yearless(kind))):
        yield from (
            text for number in table.all(kind_key(key), matching.PLACES) if (text := texts[number]).asked
        )


def _holding(case: Case, body: str, place: Destination | None) -> Iterator[Text]:
    """The texts and records that hold a value as a whole token in so many words, as far as they are looked at."""
    ledger = case.ledger
    if place is not None and place.external:
        for key in map(exact, place.alike):
            yield from ledger.records.find(f"within {key}")
            yield from (ledger.texts[number] for number in ledger.places.all(key, matching.PLACES))
        return
    yield from _standing_in(case, ledger.words, ledger.texts, body)
    yield from _standing_in(case, ledger.records.words, ledger.records.entries, body)


def _standing_in(case: Case, words: WordIndex, texts: tuple[Text, ...], body: str) -> Iterator[Text]:
    name = body.strip()
    places = words.starting(head_of(name), matching.PLACES)
    if not places:
        return
    pattern, lead = mention(name), lead_of(name)
    for number, offset in places:
        text = texts[number]
        if standing(text.body, offset, pattern, lead, len(name)) and case.ledger.records.sure(text):
            yield text


def _from(text: Text, accepts: tuple[str, ...]) -> bool:
    field = f"{text.origin.source}.{bare(text.origin.path)}".rstrip(".")
    return any(means(entry, field) for entry in accepts)
