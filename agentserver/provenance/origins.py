"""The origins of a call's values, for a person who decides about it.

Owns the places that hold each value (the request, the operator's lists, a directory, a record, a stranger's text), and
the texts of strangers that the call answers. Refuses to judge: a value may have several origins, and each is shown.
Bounded: the rest is counted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.findings import AnsweredText, Origins, RecordText, ValueOrigin
from agentserver.provenance import matching
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import matching as entry_for
from agentserver.provenance.evidence.destinations import PlaceForm
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.judging.authority import record_texts, said
from agentserver.provenance.judging.case import Case
from agentserver.provenance.judging.delegation import whole_record
from agentserver.provenance.judging.destinations import places_of
from agentserver.provenance.policy.paths import bare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy

ARGUMENTS: Final = 50
"""Arguments of a call whose origins are shown."""
EACH: Final = 4
"""Origins of one value that are shown."""
ANSWERED: Final = 3
"""Texts of strangers that are shown."""
FIELDS: Final = 50
"""Fields of one of them that are shown."""
SHOWN: Final = 4_000
"""Characters of one of them, and of the request."""


def origins(ledger: Ledger, policy: Policy, call: Call) -> Origins:
    """The origins of each value of a call, and the texts that it answers."""
    case = Case(ledger, policy, call)
    told = case.arguments[:ARGUMENTS]
    found = [(argument, [*islice(_found(case, argument), EACH)]) for argument in told]
    values = tuple(one for argument, held in found for one in _told(argument, held))
    held = (text for _, each in found for _, text in each)
    strange = [text for text in held if text is not None and policy.classify(text.origin.source).source]
    return Origins(
        _latest(ledger.queries), values, _answered(ledger, strange), len(case.arguments) - len(told)
    )


def _told(argument: Argument, held: list[tuple[str, Text | None]]) -> Iterator[ValueOrigin]:
    path, value = bare(argument.leaf.path), argument.body[:SHOWN]
    for kind, text in held or [("nothing", None)]:
        if text is None:
            yield ValueOrigin(path, value, kind)
        else:
            yield ValueOrigin(path, value, kind, text.origin.source, bare(text.origin.path), text.origin.step)


def _found(case: Case, argument: Argument) -> Iterator[tuple[str, Text | None]]:
    """The kind of each origin of a value, and the text that holds it."""
    if argument.rule.role is Role.DESTINATION:
        yield from _of_places(case, argument)
    else:
        if said(case, argument):
            yield "request", None
        if argument.body in argument.rule.values:
            yield "operator", None
        records = (text for text in record_texts(case, argument) if text.standing is not Standing.DIRECTORY)
        yield from (("record", text) for text in islice(records, 1))
    try:
        yield from (("stranger", text) for text in _strangers(case.ledger, argument.body))
        known = not case.ledger.overflow
    except matching.Crowded:
        known = False
    if not known:
        yield "unknown", None


def _of_places(case: Case, argument: Argument) -> Iterator[tuple[str, Text | None]]:
    places = [place for place in places_of(case, argument) if place.form is not PlaceForm.NONE]
    if any(case.ledger.asked.names(place) for place in places):
        yield "request", None
    if any(entry_for(case.policy.allow, place) or place.written in argument.rule.values for place in places):
        yield "operator", None
    held = (text for place in places for text in case.ledger.records.directory(place))
    yield from (("directory", text) for text in islice(held, 1))


def _strangers(ledger: Ledger, body: str) -> Iterator[Text]:
    """The untrusted texts that hold a value, or a piece of it; one of each record. Raises Crowded."""
    whole = matching.origin(ledger, body)
    pieces = () if whole else tuple(islice(matching.content(ledger, body), EACH))
    held = [whole.text] if whole else [match.evidence.text for match in pieces]
    yield from {record_of(text.origin): text for text in held}.values()


def _answered(ledger: Ledger, held: list[Text]) -> tuple[AnsweredText, ...]:
    """The records that hold values of a call; without any, the last one that was read."""
    last = [] if held else [*ledger.texts[-1:]]
    chosen = {record_of(text.origin): text for text in (*held, *last)}
    return tuple(
        _shown(where, whole_record(ledger, text), holds=bool(held))
        for where, text in islice(chosen.items(), ANSWERED)
    )


def _shown(where: tuple[str, int, str], texts: Sequence[Text], *, holds: bool) -> AnsweredText:
    """A record as far as it is shown."""
    room = SHOWN
    shown: list[RecordText] = []
    for text in texts[:FIELDS]:
        if room > 0:
            shown.append(RecordText(bare(text.origin.path), text.body[:room]))
        room -= len(text.body)
    return AnsweredText(*where, tuple(shown), holds, cut=room < 0 or len(texts) > FIELDS)


def _latest(queries: tuple[str, ...]) -> str:
    """The principal's latest words, each cut at its end alone, where a secret is still recognised."""
    room = SHOWN
    shown: list[str] = []
    for query in reversed(queries[-EACH:]):
        if room > 0:
            shown.append(query[:room])
        room -= len(query) + 1
    return "\n".join(reversed(shown))
