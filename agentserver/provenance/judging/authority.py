"""Reasons for which a value is allowed: the request, the operator's lists, records and accepted fields.

Compares authority forms only, never evidence.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.findings import Delegation, RecordText
from agentserver.provenance import matching
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import build_mention_pattern, find_entry, find_tokens
from agentserver.provenance.evidence.destinations import (
    PlaceForm,
    decode_percent,
    parse_destination,
    strip_mark,
)
from agentserver.provenance.evidence.inventory import hash_place, is_file
from agentserver.provenance.evidence.labels import Finder, Role, Standing, means, step_of, strip_indices
from agentserver.provenance.evidence.leaves import WRITTEN, build_day_key, build_typed_key, format_text
from agentserver.provenance.evidence.readings import (
    is_in_other_currency,
    read_amounts,
    read_moment,
)
from agentserver.provenance.exits import is_in_selected_record
from agentserver.provenance.judging.confirmed import is_confirmed
from agentserver.provenance.observations.choosing import is_on_said_day, shows_said_name
from agentserver.provenance.observations.lookups import is_key
from agentserver.provenance.observations.occurrences import PLACES, find_mentions
from agentserver.provenance.observations.records import list_name_keys
from agentserver.provenance.observations.untrusted_texts import hash_kind
from agentserver.provenance.policy.declarations import Effect
from agentserver.provenance.policy.forms import derive_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import ArgumentRule
    from agentserver.provenance.verdict import Finding

PEERS: Final = 2000
"""Maximum records of one step that are looked at next to a value; a larger output has no chosen record."""
PARTS: Final = 16
"""Maximum parts of a composed choice, and first arguments of a call that may be parts of a path."""
SHORTEST_PART: Final = 2
"""Minimum characters of a part of a composed choice or a path."""
FOLDERS: Final = 3
"""Maximum folders of a path that is composed of words of the request."""
SAID: Final = 4
"""Minimum characters of a word of the request in a command."""
WHOLE: Final = 20_000
"""Maximum characters of a record that is shown whole. For longer ones a person is asked about each value."""
FIELDS: Final = 200
"""Maximum fields of such a record."""

_PART: Final = re.compile(r"[\w.-]{2,100}")
_CLIMBING: Final = re.compile(r"(?:^|[/\\])(?!\.{1,2}[/\\])[^/\\\s]+[/\\]\.\.(?:[/\\]|$)")
_NAMES_THINGS: Final = {Standing.RECORD, Standing.DIRECTORY, Standing.OWN}


def may_receive(case: Case, rule: ArgumentRule, place: Destination) -> bool:
    """Check whether the operator, the principal, a directory or an accepted field names a destination."""
    if find_entry(case.policy.allow, place):
        return True
    if place.form is PlaceForm.NONE:
        return False
    if place.written in rule.values or (case.policy.query_authorises and case.ledger.asked.names(place)):
        return True
    return is_listed(case, place) or is_accepted(case, rule, place.written, place)


def is_part_of_named_path(case: Case, argument: Argument) -> bool:
    """Check whether a name and another argument of the call are together a path that the request names.

    *harbor/storefront* names the owner ``harbor`` and the repository ``storefront``, each only next to the other. Both
    are declared destinations, in the order of the path: content next to a name makes no path of it, and the two names
    in the other order are another place.
    """
    policy, call = case.policy, case.call
    parts = [
        (rank, each)
        for each in case.arguments[:PARTS]
        if each.rule.role is Role.DESTINATION
        and _PART.fullmatch(each.body.strip())
        and (rank := policy.rank_argument(call, each.leaf)) is not None
    ]
    pairs = ((one, other) for rank, one in parts for later, other in parts if rank < later)
    return any(
        case.ledger.asked.mentions(f"{one.body.strip()}/{other.body.strip()}", any_case=True)
        for one, other in pairs
        if argument is one or argument is other
    )


def is_listed(case: Case, place: Destination) -> bool:
    """Check whether a directory holds a destination."""
    return any(True for _ in case.ledger.records.find_directory(place))


def is_ordered(case: Case, place: Destination) -> bool:
    """Check whether the operator or the principal named a destination, or it is the principal's own."""
    if find_entry(case.policy.allow, place) or case.ledger.asked.names(place):
        return True
    return any(text.standing is Standing.OWN for text in case.ledger.records.find_directory(place))


def is_chosen(case: Case, argument: Argument) -> bool:
    """Check whether a value is a field of a record that the principal's words chose.

    Anyone may fill the fields by which a record of a source was chosen, so no other untrusted text may hold its value,
    nor a record that was passed over: a chosen one may refer to another.
    """
    found = [*find_records(case, argument)]
    chosen = [text for text in found if text.chosen]
    if not chosen or any(not case.is_of_source(text) for text in chosen):
        return bool(chosen)
    if any(not text.chosen and _has_chosen_peer(case, text) for text in found):
        return False
    return not matching.occurs_in_longer_text(case.ledger, argument.body, list_homes(chosen))


def list_homes(texts: Iterable[Text]) -> frozenset[tuple[str, int, str]]:
    """List the records that texts belong to."""
    return frozenset(record_of(text.origin) for text in texts)


def list_chosen_fields(case: Case, arguments: Iterable[Argument]) -> list[Text]:
    """List the fields of the chosen records that hold a value of some arguments."""
    homes = list_homes(text for each in arguments for text in find_records(case, each) if text.chosen)
    return [text for text in case.records if record_of(text.origin) in homes] if homes else []


def is_passed_over(case: Case, argument: Argument) -> bool:
    """Check whether a value is that of a record next to one that the principal's words chose in the same output.

    A day is no record's own: any call may be due on the day of another record.
    """
    if argument.rule.role is Role.TIME or not case.ledger.records.has_chosen or is_requested(case, argument):
        return False
    records = [*find_records(case, argument)]
    if not records or any(text.chosen for text in records):
        return False
    peers = [peer for text in records for peer in _find_chosen_peers(case, text)]
    if any(_is_chosen_by_name(case, peer) for peer in peers):
        return True
    return bool(peers) and matching.occurs_in_longer_text(case.ledger, argument.body, list_homes(records))


def is_dictated_record(case: Case, argument: Argument) -> bool:
    """Check whether an unnamed text gives the key of a record that the request did not choose.

    Other values do not count: a word or a short number is in many texts. At an undeclared listener any text counts if
    the request only asks for information: else search results, which speak of each other, could not be opened.
    """
    body, rule, known = argument.body.strip(), argument.rule, case.listener.known
    is_choice = rule.role is Role.SELECTOR and is_key(body) and (known or case.orders_nothing)
    if not is_choice or body in rule.values or is_requested(case, argument):
        return False
    records = [*find_records(case, argument)]
    if not records or any(text.chosen for text in records):
        return False
    pattern = build_mention_pattern(body)
    others = (text for text in case.read_texts if not (known and text.asked) and text.body.strip() != body)
    return any(pattern.search(text.body) for text in others)


def _has_chosen_peer(case: Case, text: Text) -> bool:
    return any(True for _ in _find_chosen_peers(case, text))


def _find_chosen_peers(case: Case, text: Text) -> Iterator[Text]:
    """Find the same field of the chosen records next to a record in one output."""
    field, record = strip_indices(text.origin.path), record_of(text.origin)
    return (
        other
        for other in islice(case.ledger.records.entries.items_with(text.origin.step, step_of), PEERS)
        if other.chosen
        and other.origin.source == text.origin.source
        and strip_indices(other.origin.path) == field
        and record_of(other.origin) != record
    )


def _is_chosen_by_name(case: Case, peer: Text) -> bool:
    """Check whether the words name a chosen record by a field, a part of a name or its day, not only as an extreme."""
    said = case.ledger.asked.read_values(case.policy.conventions)
    entries = [*islice(case.ledger.records.entries.items_with(peer.origin.step, step_of), PEERS)]
    own = {text.body for text in entries if record_of(text.origin) == record_of(peer.origin)}
    shared = {text.body for text in entries if record_of(text.origin) != record_of(peer.origin)}
    return any(is_on_said_day(body, said, case.call.time) for body in own) or any(
        shows_said_name(case.ledger.asked, body) for body in own - shared
    )


def is_chosen_place(case: Case, place: Destination) -> bool:
    """Check whether a destination is a field of a trusted record that the principal's words chose."""
    return any(text.chosen for text in case.ledger.records.find_directory(place))


def may_choose(case: Case, argument: Argument) -> bool:
    """Check whether the operator, the principal, a record of the right kind or an accepted field made a choice."""
    if argument.body in argument.rule.values or _is_in_latest_record(case, argument):
        return True
    return (
        is_requested(case, argument)
        or is_recorded(case, argument)
        or is_confirmed(case, argument)
        or is_accepted(case, argument.rule, argument.body)
        or is_composed(case, argument)
        or is_said_path(case, argument)
    )


def is_composed(case: Case, argument: Argument, *, supports: bool = False) -> bool:
    """Check whether a choice consists of parts with declared glue, each from the request or a declared record.

    A part that only an undeclared field or a text holds is anybody's, and so is a part of one letter. The choice
    ``supports`` a call if the request has one of the parts.
    """
    glue = argument.rule.glue
    if not glue or argument.rule.role is not Role.SELECTOR or argument.rule.id:
        return False
    parts = re.split(f"[{re.escape(glue)}]", argument.body.strip())
    if not 1 < len(parts) <= PARTS or any(len(part) < SHORTEST_PART for part in parts):
        return False
    requested = [part for part in parts if case.ledger.asked.chooses(part)]
    known = all(part in requested or _is_declared_record(case, part) for part in parts)
    return known and (bool(requested) or not supports)


def is_said_path(case: Case, argument: Argument) -> bool:
    """Check whether a choice is the only file that the request names, below folders that it names.

    Of several files a text could say which one lies where.
    """
    *folders, file = argument.body.strip().split("/")
    if argument.rule.role is not Role.SELECTOR or argument.rule.id or not 0 < len(folders) <= FOLDERS:
        return False
    if not is_file(file) or any(len(part) < SHORTEST_PART or not part.strip(".") for part in folders):
        return False
    request = case.ledger.asked
    files = {token for words in request.audible for token, _ in find_tokens(words) if is_file(token)}
    return len(files) == 1 and all(map(request.chooses, (*folders, file)))


def climbs_out(case: Case, argument: Argument) -> bool:
    """Check whether a path leaves a folder that it names before, and nobody wrote it so."""
    if argument.rule.role is not Role.SELECTOR or argument.body in argument.rule.values:
        return False
    return bool(_CLIMBING.search(decode_percent(argument.body.strip()))) and not is_requested(case, argument)


def is_command_of_said_word(case: Case, argument: Argument) -> bool:
    """Check whether a choice of several words is a command about a thing that the request names.

    It ends with a word of the request, but for flags, and otherwise has words in small letters, as in
    ``pip install pandas``. A name of several words has capitals. Such a command may be computed, as a longer one may.
    """
    first, *others = argument.body.split()
    if argument.rule.id or not all(map(_is_of_command, (first, *others))):
        return False
    things = [word for word in others if not word.startswith("-")]
    return bool(things) and len(things[-1]) >= SAID and case.ledger.asked.chooses(things[-1])


def _is_of_command(word: str) -> bool:
    return word.isascii() and (word[0] in "-~/." or word[0].islower())


def _is_declared_record(case: Case, body: str) -> bool:
    texts = (text for key in list_name_keys(body) for text in case.ledger.records.find(key))
    return any(text.standing in _NAMES_THINGS and not text.formed for text in texts)


def is_requested(case: Case, argument: Argument) -> bool:
    """Check whether the principal's words hold a value, in any letter case or spelling of a number or moment.

    An amount is held only by a number that is said as one, without another currency than the words name, and a moment
    with its time of day.
    """
    request, value = case.ledger.asked, argument.leaf.value
    role = argument.rule.role
    if role is Role.QUANTITY and (amounts := read_amounts(value)):
        if isinstance(value, str) and is_in_other_currency(value, case.said_currencies):
            return False  # a number has no unit
        values = request.read_values(case.policy.conventions)
        return amounts <= values or (len(amounts) > 1 and request.chooses(argument.body))
    if is_judged_as_moment(argument) and (moment := read_moment(value)):
        stated = moment.bounds_said_day(request.read_values(case.policy.conventions), case.call.time)
        return stated or (role is not Role.TIME and request.chooses(argument.body))
    if request.chooses(argument.body):
        return True
    kind = build_typed_key(value)
    return kind is not None and not request.kinds.isdisjoint({kind, build_day_key(kind) or kind})


def is_judged_as_moment(argument: Argument) -> bool:
    """Check whether an argument is a time, or an undeclared choice that begins with a year and is a day."""
    if argument.rule.role is Role.TIME:
        return True
    if argument.rule.role is not Role.SELECTOR:
        return False
    if not WRITTEN.fullmatch(argument.body.strip()):
        return False
    moment = read_moment(argument.leaf.value)
    return moment is not None and moment.day is not None


def is_recorded(case: Case, argument: Argument) -> bool:
    """Check whether a record holds a value, and is of the declared kind if the argument has one."""
    return any(find_records(case, argument)) or (
        not argument.rule.id and any(_find_tokens(case, argument.body.strip()))
    )


def _is_in_latest_record(case: Case, argument: Argument) -> bool:
    """Check whether one of the latest records is a value, which takes no index."""
    found = case.ledger.records.find_latest(argument.body)
    return bool([text for text in found if _is_of_kind(text, argument.rule.id)])


def _is_of_kind(text: Text, kind: str) -> bool:
    return text.standing in _NAMES_THINGS and (not kind or text.id == kind)


def is_in_requested_document(case: Case, argument: Argument) -> bool:
    """Check whether a record of a document that the principal named holds a value.

    Of a document with several records, such as a search with a word of the request, or of a record with a list of them,
    a text may not say which one.
    """
    named = [text for text in find_records(case, argument) if text.asked or text.found_by is Finder.DOCUMENT]
    if any(text.chosen or _is_sole(case, text) for text in named):
        return True
    return bool(named) and not matching.occurs_in_longer_text(case.ledger, argument.body, None)


def is_id_of_requested_document(case: Case, argument: Argument) -> bool:
    """Check whether a receiver is an id in a declared field of the only record of a document that was named.

    By its form it is a choice: the listener looks up who is behind it.
    """
    if derive_role(argument.leaf.value) is not Role.SELECTOR:
        return False
    named = [text for text in find_records(case, argument) if text.asked and not text.formed]
    return any(text.chosen or _is_sole(case, text) for text in named)


def _is_sole(case: Case, text: Text) -> bool:
    """Check whether a record is the only one of its output, and its field the only one of this name in it."""
    if not case.ledger.is_sole(text.origin):
        return False
    field = strip_indices(text.origin.path)
    origins = (each.origin for each in case.ledger.list_texts_of_step(text.origin.step))
    same = {
        one.path for one in origins if one.source == text.origin.source and strip_indices(one.path) == field
    }
    return same == {text.origin.path}  # without any the output is too long


def is_anybodys_record(case: Case, argument: Argument) -> bool:
    """Check whether only records of sources hold a value, and the principal chose none of them.

    A stranger's text may say which one. Bookkeeping of an undeclared field may be a stranger's as well.
    """
    found = [*find_records(case, argument)]
    return bool(found) and not any(text.asked or _is_authors(case, text) for text in found)


def _is_authors(case: Case, text: Text) -> bool:
    """Check whether a record is the principal's own, or of a listener that is no source."""
    return text.standing is Standing.OWN or not case.is_of_source(text)


def find_records(case: Case, argument: Argument) -> Iterator[Text]:
    """Find the certain records that hold a value, of the kind that the argument selects."""
    body, kind = argument.body.strip(), argument.rule.id
    names = dict.fromkeys(key for each in (body, strip_mark(body)) for key in list_name_keys(each))
    keys = (*names, build_typed_key(argument.leaf.value) or "")
    for text in (text for key in keys for text in case.ledger.records.find(key)):
        if _is_of_kind(text, kind):
            yield text


def _find_tokens(case: Case, body: str) -> Iterator[Text]:
    """Find the texts of non-source listeners that hold a value as a whole token."""
    records = case.ledger.records
    for text in _find_whole_tokens(case, records.words, records.entries, body):
        if not case.is_of_source(text) and text.standing is Standing.RECORD:
            yield text


def is_accepted(case: Case, rule: ArgumentRule, body: str, place: Destination | None = None) -> bool:
    """Check whether an accepted field holds a value, as a record or in a document that the principal named."""
    if not rule.accepts:
        return False
    if "record" in rule.accepts and place is not None:
        chosen = [other.leaf for other in case.arguments if other.rule.role is Role.SELECTOR]
        if is_in_selected_record(case.ledger, chosen, place):
            return True
    own = list_name_keys(body.strip())
    keys = (*(f"place {key}" for key in place.alike), *own) if place else own
    known = (text for key in keys for text in case.ledger.records.find(key))
    requested = (text for text in _find_holders(case, body, place) if text.asked)
    found = (*known, *requested, *_find_amounts(case, rule, body))
    return any(_is_from(text, rule.accepts) for text in found)


def _find_amounts(case: Case, rule: ArgumentRule, body: str) -> Iterator[Text]:
    """Find the texts of requested documents that hold a quantity or a time, in any spelling."""
    kind = build_typed_key(body) if rule.role in {Role.QUANTITY, Role.TIME} else None
    if kind is None:
        return
    table, texts = case.ledger.untrusted.kinds.table, case.ledger.texts
    for key in filter(None, (kind, build_day_key(kind))):
        yield from (
            text for number in table.find_all(hash_kind(key), PLACES) if (text := texts[number]).asked
        )


def _find_holders(case: Case, body: str, place: Destination | None) -> Iterator[Text]:
    """Find the texts and records that hold a value verbatim as a whole token, up to a bound."""
    ledger = case.ledger
    if place is not None and place.external:
        for key in map(hash_place, place.alike):
            yield from ledger.records.find(f"within {key}")
            yield from (ledger.texts[number] for number in ledger.places.find_all(key, PLACES))
        return
    yield from _find_whole_tokens(case, ledger.words, ledger.texts, body)
    yield from _find_whole_tokens(case, ledger.records.words, ledger.records.entries, body)


def _find_whole_tokens(case: Case, words: WordIndex, texts: Sequence[Text], body: str) -> Iterator[Text]:
    return filter(case.ledger.records.is_independent, find_mentions(words, texts, body))


def _is_from(text: Text, accepts: tuple[str, ...]) -> bool:
    field = f"{text.origin.source}.{strip_indices(text.origin.path)}".rstrip(".")
    return any(means(entry, field) for entry in accepts)


def find_delegation(ledger: Ledger, call: Call, findings: Iterable[Finding]) -> Delegation | None:
    """Find the one record that has every questionable argument as a whole field; None if there is no such record."""
    serious = [one for one in findings if one.effect in {Effect.BLOCK, Effect.ASK}]
    values = {(one.path, one.value) for one in serious}
    if not all(path for path, _ in values):
        return None
    texts = (one.evidence.text for one in serious if one.evidence is not None)
    for text in {record_of(text.origin): text for text in texts}.values():
        record = collect_record(ledger, text)
        fields = [(strip_indices(one.origin.path), one.body) for one in record]
        if len(fields) > FIELDS or sum(len(body) for _, body in fields) > WHOLE:
            continue
        if all(any(name and is_same_value(value, body) for name, body in fields) for _, value in values):
            source, step, item = record_of(text.origin)
            return Delegation(
                source, step, item, tuple(_show_field(call, name, body) for name, body in fields)
            )
    return None


def is_same_value(value: str, field: str) -> bool:
    """Check whether an argument equals a whole field, in any spelling of a place, number or date."""
    if value.strip() == field.strip():
        return True
    kind, place = build_typed_key(value), parse_destination(value)
    known = place.form not in {PlaceForm.NONE, PlaceForm.NAME}
    return (kind is not None and kind == build_typed_key(field)) or (
        known and place == parse_destination(field)
    )


def _show_field(call: Call, name: str, body: str) -> RecordText:
    """Describe one field of a record, with the arguments that it fills."""
    pairs = ((strip_indices(leaf.path), format_text(leaf.value)) for leaf in call.arguments)
    return RecordText(name, body, tuple(path for path, value in pairs if name and is_same_value(value, body)))


def collect_record(ledger: Ledger, text: Text) -> list[Text]:
    """Collect all known fields of the record that a text belongs to, in order."""
    record = record_of(text.origin)
    found: dict[str, Text] = {}
    for texts in (ledger.texts, ledger.records.entries):
        known = (
            one for one in texts.items_with(text.origin.step, step_of) if record_of(one.origin) == record
        )
        found.update((one.origin.path, one) for one in known)
    return [found[path] for path in sorted(found)]
