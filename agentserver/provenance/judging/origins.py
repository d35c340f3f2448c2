"""Origins of the values of a call, as a person is shown them who decides.

A value may have several origins (the request, the operator's lists, a directory, a record, an untrusted text).
Everything is bounded; the rest is counted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.findings import AnsweredText, Origins, RecordText, ValueOrigin
from agentserver.provenance import matching
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import find_entry
from agentserver.provenance.evidence.destinations import PlaceForm
from agentserver.provenance.evidence.labels import Role, Standing, strip_indices
from agentserver.provenance.judging.authority import collect_record, find_records, is_requested
from agentserver.provenance.judging.case import Case
from agentserver.provenance.judging.destinations import read_places
from agentserver.provenance.observations.occurrences import TooManyValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy

ARGUMENTS: Final = 50
"""Maximum arguments of a call whose origins are shown."""
EACH: Final = 4
"""Maximum origins of one value that are shown."""
ANSWERED: Final = 3
"""Maximum untrusted texts that are shown."""
FIELDS: Final = 50
"""Maximum fields of one of them that are shown."""
SHOWN: Final = 4_000
"""Maximum characters of one of them, and of the request."""


def find_origins(ledger: Ledger, policy: Policy, call: Call) -> Origins:
    """Find the origins of each value of a call, and the texts that it answers."""
    case = Case(ledger, policy, call)
    shown = case.arguments[:ARGUMENTS]
    found = [(argument, [*islice(_find_holders(case, argument), EACH)]) for argument in shown]
    values = tuple(one for argument, holders in found for one in _describe(argument, holders))
    holders = (text for _, each in found for _, text in each)
    strange = [text for text in holders if text is not None and case.is_of_source(text)]
    return Origins(
        _collect_latest_queries(ledger.queries),
        values,
        _list_answered(ledger, strange),
        len(case.arguments) - len(shown),
    )


def _describe(argument: Argument, holders: list[tuple[str, Text | None]]) -> Iterator[ValueOrigin]:
    path, value = strip_indices(argument.leaf.path), argument.body[:SHOWN]
    for kind, text in holders or [("nothing", None)]:
        if text is None:
            yield ValueOrigin(path, value, kind)
        else:
            yield ValueOrigin(
                path,
                value,
                kind,
                text.origin.source,
                strip_indices(text.origin.path),
                text.origin.step,
                text.origin.trace,
            )


def _find_holders(case: Case, argument: Argument) -> Iterator[tuple[str, Text | None]]:
    """Find the kind of each origin of a value, and the text that holds it."""
    if argument.rule.role is Role.DESTINATION:
        yield from _find_place_holders(case, argument)
    else:
        if is_requested(case, argument):
            yield "request", None
        if argument.body in argument.rule.values:
            yield "operator", None
        records = (text for text in find_records(case, argument) if text.standing is not Standing.DIRECTORY)
        yield from (("record", text) for text in islice(records, 1))
    try:
        yield from (("stranger", text) for text in _find_untrusted(case.ledger, argument.body))
        known = not case.ledger.overflow
    except TooManyValues:
        known = False
    if not known:
        yield "unknown", None


def _find_place_holders(case: Case, argument: Argument) -> Iterator[tuple[str, Text | None]]:
    places = [place for place in read_places(case, argument) if place.form is not PlaceForm.NONE]
    if any(case.ledger.asked.names(place) for place in places):
        yield "request", None
    if any(find_entry(case.policy.allow, place) or place.written in argument.rule.values for place in places):
        yield "operator", None
    texts = (text for place in places for text in case.ledger.records.find_directory(place))
    yield from (("directory", text) for text in islice(texts, 1))


def _find_untrusted(ledger: Ledger, body: str) -> Iterator[Text]:
    """Find the untrusted texts that hold a value or a piece of it, one of each record. Raises TooManyValues."""
    complete = matching.find_origin(ledger, body)
    pieces = () if complete else tuple(islice(matching.find_content(ledger, body), EACH))
    texts = [complete.text] if complete else [match.evidence.text for match in pieces]
    yield from {record_of(text.origin): text for text in texts}.values()


def _list_answered(ledger: Ledger, texts: list[Text]) -> tuple[AnsweredText, ...]:
    """List the records that hold values of a call, or the last record read if there are no such records."""
    last = [] if texts else [*ledger.texts[-1:]]
    chosen = {record_of(text.origin): text for text in (*texts, *last)}
    return tuple(
        _show_record(record, collect_record(ledger, text), holds=bool(texts))
        for record, text in islice(chosen.items(), ANSWERED)
    )


def _show_record(record: tuple[str, int, str], texts: Sequence[Text], *, holds: bool) -> AnsweredText:
    """Cut a record to the bounds of the display."""
    room = SHOWN
    shown: list[RecordText] = []
    for text in texts[:FIELDS]:
        if room > 0:
            shown.append(RecordText(strip_indices(text.origin.path), text.body[:room]))
        room -= len(text.body)
    return AnsweredText(*record, tuple(shown), holds, cut=room < 0 or len(texts) > FIELDS)


def _collect_latest_queries(queries: tuple[str, ...]) -> str:
    """Collect the principal's latest words, each cut only at its end so that secrets are still recognised."""
    room = SHOWN
    shown: list[str] = []
    for query in reversed(queries[-EACH:]):
        if room > 0:
            shown.append(query[:room])
        room -= len(query) + 1
    return "\n".join(reversed(shown))
