"""Terms on which a person may endorse a document for a sink, and calls that an endorsement covers.

The question lists every row that a later call may take, with all its values. Rows are the items of the document, or
lines of a text with the same cells, if the principal named the document; else the one that the call takes. A call must
have all arguments with consequences in common with one row: those taken from the document, and the others as they
were in the question. Content is judged as always.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.findings import EndorsedRow, EndorsementTerms, FixedArgument, RecordText
from agentserver.provenance.confidentiality.origin import item_of, record_of
from agentserver.provenance.endorsements import EndorsedPattern, Endorsement, RowTerms, digest_parts
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination
from agentserver.provenance.evidence.labels import Role, step_of, strip_indices
from agentserver.provenance.evidence.leaves import build_typed_key
from agentserver.provenance.evidence.readings import (
    AMOUNT,
    list_codes,
    list_currencies,
    read_amount_key,
    read_amounts,
    read_money,
)
from agentserver.provenance.judging.authority import FIELDS, WHOLE, collect_record, is_same_value
from agentserver.provenance.policy.declarations import Effect, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Finding

ENDORSABLE: Final = frozenset(
    {
        Rule.DESTINATION,
        Rule.UNKNOWN_DESTINATION,
        Rule.SELECTOR,
        Rule.UNKNOWN_SELECTOR,
        Rule.UNKNOWN_AMOUNT,
        Rule.UNFOUNDED,
    }
)
"""Rules about the author of a value, which a person can vouch for. The others hold whoever wrote it."""

DOCUMENTS: Final = 4
"""Maximum documents that are tried for one call."""
ROWS: Final = 100
"""Maximum rows of an endorsement; of a longer document a person is asked about each call."""
LINE: Final = 1_000
"""Maximum characters of a text of one line in which values are found without cells."""
LATER: Final = 2_000
"""Maximum later texts that are searched for a changed document; with more, a person is asked again."""
SEPARATORS: Final = ("|", "\t", ";", ",", ": ", "\n")
"""Marks between the cells of a line. A line that is one cell has the last."""


class _Document(NamedTuple):
    """Document with the rows that fit a call.

    Args:
        text: one text of the record that the call takes values from.
        fields: for each taken argument the name of its field.
        rows: for each row the digest of its record and the taken values, in the order of ``fields``.
        records: the records that rows are from, whole, except the record of a delegation.
    """

    text: Text
    fields: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    records: tuple[RecordText, ...] = ()


def digest_row(case: Case) -> str:
    """Hash the sink, the sender and every argument of a call that is no content."""
    weighty = _list_weighty(case)
    return _digest_values(case, weighty, [each.body for each in weighty])


def _digest_values(case: Case, weighty: Iterable[Argument], values: Iterable[str]) -> str:
    """Hash a call that has other values for these arguments."""
    pairs = zip(weighty, values, strict=True)
    return digest_parts(
        [
            case.call.sink,
            case.call.sender,
            sorted([each.leaf.path, _normalize(each.rule.role, body)] for each, body in pairs),
            _list_undeclared_content(case),
        ]
    )


def _list_undeclared_content(case: Case) -> list[str]:
    """List the names of the arguments that are content by their form alone; a new one may be a term of the call."""
    found = (each for each in case.arguments if each.rule.role is Role.PAYLOAD and not each.rule.declared)
    return sorted({strip_indices(each.leaf.path) for each in found})


def _normalize(role: Role, body: str) -> str:
    """Return the form that all spellings of an amount or a receiver share; other values have one spelling.

    An amount that may be read in two ways or has a unit counts only as written, and so does a link with a fragment,
    which may say who receives.
    """
    if role is Role.QUANTITY and _PLAIN.fullmatch(body) and len(readings := read_amounts(body)) == 1:
        return next(iter(readings))
    place = parse_destination(body)
    if role is Role.DESTINATION and place.form not in {PlaceForm.NONE, PlaceForm.NAME} and "#" not in body:
        return f"{place.form} {place.key}"
    return f"text {body.strip()}"


_PLAIN: Final = re.compile(r"[\d.,'\s]+")


def _list_weighty(case: Case) -> list[Argument]:
    """List the arguments except content and those that are declared inert. A flag without a declaration may grant."""
    return [
        each
        for each in case.arguments
        if each.rule.role is not Role.PAYLOAD and not (each.rule.role is Role.INERT and each.rule.declared)
    ]


def is_endorsed(case: Case, findings: Sequence[Finding]) -> bool:
    """Check whether a person endorsed the document that a call takes its values from."""
    known = case.ledger.endorsements
    if not known.known or (serious := _list_endorsable(findings)) is None:
        return False
    found = known.find(digest_row(case), case.call.time)
    if found is None or found.sink != case.call.sink:
        return False
    sources = {one.evidence.text.origin.source for one in serious if one.evidence is not None}
    return sources <= {found.source} and not _is_changed(case, found)


def _list_endorsable(findings: Iterable[Finding]) -> list[Finding] | None:
    """List the findings that ask or block; None if one of them is not about the author of a value."""
    serious = [one for one in findings if one.effect in {Effect.BLOCK, Effect.ASK}]
    fit = all(one.path and one.rule in ENDORSABLE and one.role is not Role.PAYLOAD for one in serious)
    return serious if fit and serious else None


def _is_changed(case: Case, known: Endorsement) -> bool:
    """Check whether the source has since sent another document with a value of the call."""
    taken = {argument for argument, _ in known.fields}
    bodies = [each.body for each in case.arguments if each.leaf.path in taken]
    documents = known.documents
    for texts in (case.ledger.texts, case.ledger.records.entries):
        later = texts.items_from(texts.bisect(known.step + 1, step_of))
        for number, text in enumerate(later):
            if number >= LATER:
                return True
            if text.origin.source != known.source or not any(_holds(text.body, body) for body in bodies):
                continue
            if _digest_record(known.source, collect_record(case.ledger, text)) not in documents:
                return True
    return False


def _holds(text: str, value: str) -> bool:
    amounts = read_amounts(value)
    return (
        is_same_value(value, text)
        or value.strip() in text
        or (bool(amounts) and amounts <= read_amounts(text))
    )


def _digest_record(source: str, record: Iterable[Text]) -> str:
    return digest_parts([source, sorted([_name_field(one), one.body] for one in record)])


def _name_field(text: Text) -> str:
    """Return the path of a text within its record."""
    return text.origin.path.removeprefix(item_of(text.origin.path))


def find_pattern(case: Case, findings: Sequence[Finding]) -> EndorsedPattern | None:
    """Find the endorsement that would cover a call and the calls like it; or None."""
    serious = _list_endorsable(findings)
    if serious is None:
        return None
    weighty = _list_weighty(case)
    doubted = {one.path for one in serious}
    wanted = [each for each in weighty if strip_indices(each.leaf.path) in doubted]
    if not wanted:
        return None
    texts = (one.evidence.text for one in serious if one.evidence is not None)
    for text in islice({record_of(text.origin): text for text in texts}.values(), DOCUMENTS):
        document = _read_document(case, text, weighty, wanted, serious)
        if document is not None:
            return _make_pattern(case, document, weighty)
    return None


def _read_document(
    case: Case, text: Text, weighty: list[Argument], wanted: list[Argument], serious: list[Finding]
) -> _Document | None:
    record = collect_record(case.ledger, text)
    if not _is_short(record):
        return None
    document = _read_items(case, text, record, weighty, wanted)
    lines = (_read_lines(record, one, weighty, wanted) for one in record if document is None)
    document = document or next(filter(None, lines), None)
    return document or _read_sentence(record, text, wanted, serious)


def _is_short(record: Sequence[Text]) -> bool:
    return len(record) <= FIELDS and sum(len(one.body) for one in record) <= WHOLE


def _take(
    weighty: list[Argument], wanted: list[Argument], fields: Sequence[tuple[str, str]]
) -> dict[str, int] | None:
    """Find the field that each argument equals; None if one that has to be taken from the document equals none."""
    taken: dict[str, int] = {}
    for each in weighty:
        numbers = (
            number
            for number, (_, body) in enumerate(fields)
            if is_same_value(each.body, body) or _is_sum_of(each, body, weighty)
        )
        number = next(numbers, None)
        if number is not None:
            taken[each.leaf.path] = number
        elif each in wanted:
            return None
    return taken


def _is_sum_of(argument: Argument, cell: str, weighty: list[Argument]) -> bool:
    """Check whether a bare amount is the sum of money in a cell, whose currency the call does not contradict."""
    if not _is_plain_amount(argument) or _PLAIN.fullmatch(cell) or not read_money(cell):
        return False
    readings, currencies = read_amounts(cell), list_currencies(cell)
    given = list_codes(each.body for each in weighty)
    return len(readings) == 1 and readings == read_amounts(argument.body) and given <= currencies


def _is_plain_amount(argument: Argument) -> bool:
    return argument.rule.role is Role.QUANTITY and _PLAIN.fullmatch(argument.body) is not None


def _strip_currencies(cells: dict[str, str], sums: dict[str, str]) -> dict[str, str] | None:
    """Reduce the sums of a row to bare amounts; None if one has another currency than the call's own, or is unclear."""
    plain = dict(cells)
    for path, own in sums.items():
        readings = read_amounts(cells[path])
        same = list_currencies(cells[path]) == list_currencies(own)
        if len(readings) != 1 or not read_money(cells[path]) or not same:
            return None
        plain[path] = next(iter(readings)).removeprefix(AMOUNT)
    return plain


def _read_items(
    case: Case, text: Text, record: list[Text], weighty: list[Argument], wanted: list[Argument]
) -> _Document | None:
    """Read the values as whole fields of an item; rows are the items of the same output."""
    named = [(strip_indices(_name_field(one)), one.body) for one in record]
    fields = [(name, body) for name, body in named if name]
    taken = _take(weighty, wanted, fields)
    if not taken:
        return None
    names = tuple((argument, fields[number][0]) for argument, number in taken.items())
    source = text.origin.source
    rows = [(_digest_record(source, record), tuple(fields[number][1] for number in taken.values()))]
    records: tuple[RecordText, ...] = ()
    for other in _list_siblings(case, text) if text.asked else ():
        values = _pick_values(other, [name for _, name in names])
        if values is not None and len(rows) < ROWS:
            rows.append((_digest_record(source, other), values))
            records += _show(other)
    return _Document(text, names, tuple(rows), records)


def _list_siblings(case: Case, text: Text) -> list[list[Text]]:
    """List the other items of an output, if all of it is short enough to be shown."""
    items: dict[str, dict[str, Text]] = {}
    own, step = item_of(text.origin.path), text.origin.step
    for texts in (case.ledger.texts, case.ledger.records.entries):
        for one in islice(texts.items_with(step, step_of), FIELDS + 1):
            items.setdefault(item_of(one.origin.path), {})[one.origin.path] = one
    if not own or not _is_short([one for item in items.values() for one in item.values()]):
        return []
    return [[*item.values()] for where, item in items.items() if where and where != own]


def _pick_values(record: Iterable[Text], names: list[str]) -> tuple[str, ...] | None:
    """Pick the values of fields; None if one is missing or there are several."""
    found: dict[str, list[str]] = {}
    for one in record:
        found.setdefault(strip_indices(_name_field(one)), []).append(one.body)
    picked = [found.get(name, []) for name in names]
    return tuple(one[0] for one in picked) if all(len(one) == 1 for one in picked) else None


def _read_lines(
    record: list[Text], text: Text, weighty: list[Argument], wanted: list[Argument]
) -> _Document | None:
    """Read the values as cells of a line; rows are the lines of the text with as many cells of the same kinds."""
    lines = [line for line in text.body.split("\n") if line.strip()]
    for mark in SEPARATORS:
        table = [_split_line(line, mark) for line in lines]
        for cells in table:
            taken = _take(weighty, wanted, [("", cell) for cell in cells])
            if not taken:
                continue
            own = tuple(cells[number] for number in taken.values())
            kinds = tuple(map(_name_kind, own))
            if not any(kinds):
                continue
            alike = [
                tuple(each[number] for number in taken.values())
                for each in table
                if text.asked and len(each) == len(cells)
            ]
            fitting = [each for each in alike if each != own and tuple(map(_name_kind, each)) == kinds]
            digest = _digest_record(text.origin.source, record)
            rows = dict.fromkeys((own, *fitting[: ROWS - 1]))
            names = tuple((argument, f"column {number + 1}") for argument, number in taken.items())
            return _Document(text, names, tuple((digest, values) for values in rows), _show(record))
    return None


def _split_line(line: str, mark: str) -> list[str]:
    body = line.strip().strip("|") if mark == "|" else line.strip()
    return [cell.strip().strip('"') for cell in body.removeprefix("- ").split(mark)]


def _name_kind(value: str) -> str:
    """Name the kind of a value; empty for words."""
    kind, place = build_typed_key(value), parse_destination(value)
    if kind is not None:
        return kind.partition(" ")[0]
    return "" if place.form in {PlaceForm.NONE, PlaceForm.NAME} else str(place.form)


def _read_sentence(
    record: list[Text], text: Text, wanted: list[Argument], serious: list[Finding]
) -> _Document | None:
    """Read the values as words of a text of one line, for this very call alone."""
    inside = {one.path for one in serious if one.evidence is not None and one.evidence.text is text}
    plain = len(text.body) <= LINE and "\n" not in text.body.strip()
    if not plain or any(strip_indices(each.leaf.path) not in inside for each in wanted):
        return None
    field = strip_indices(text.origin.path) or "its text"
    names = tuple((each.leaf.path, field) for each in wanted)
    row = _digest_record(text.origin.source, record), tuple(each.body for each in wanted)
    return _Document(text, names, (row,), _show(record))


def _show(record: Iterable[Text]) -> tuple[RecordText, ...]:
    return tuple(RecordText(strip_indices(one.origin.path), one.body) for one in record)


def _make_pattern(case: Case, document: _Document, weighty: list[Argument]) -> EndorsedPattern | None:
    taken = [argument for argument, _ in document.fields]
    fixed = {each.leaf.path: each.body for each in weighty if each.leaf.path not in taken}
    counted = [each.leaf.path for each in weighty if each.rule.role is Role.QUANTITY]
    asked, used = digest_row(case), case.ledger.endorsements.counted
    rows: dict[str, RowTerms] = {}
    shown: list[EndorsedRow] = []
    for record, values, cells in _list_calls(document, weighty):
        given = {**fixed, **cells}
        amount = _sum_amounts(given[path] for path in counted)
        digest = _digest_values(case, weighty, [given[each.leaf.path] for each in weighty])
        if amount is not None and digest not in rows and (digest == asked or digest not in used):
            rows[digest] = RowTerms(record, amount)
            shown.append(EndorsedRow(values))
    own = rows.get(asked)
    if own is None or (len(rows) == 1 and not counted):
        return None  # without an amount, such a call may be approved as it is
    limit = _find_limit(case, rows.values()) if counted else None
    if limit is not None and own.amount > limit:
        return None
    until = case.call.time + 3600 * case.policy.endorse_hours
    origin = document.text.origin
    made = Endorsement(
        case.call.sink, origin.source, origin.step, document.fields, MappingProxyType(rows), limit, until
    )
    terms = EndorsementTerms(
        made.id,
        origin.source,
        origin.step,
        tuple(map(strip_indices, taken)),
        tuple(field for _, field in document.fields),
        tuple(shown),
        tuple(FixedArgument(strip_indices(path), body) for path, body in fixed.items()),
        document.records,
        "" if limit is None else f"{limit:f}",
        until,
        case.ledger.endorsements.explain(asked, case.call.time),
    )
    return EndorsedPattern(made.write_subject(asked), terms)


def _list_calls(
    document: _Document, weighty: list[Argument]
) -> Iterator[tuple[str, tuple[str, ...], dict[str, str]]]:
    """List the rows, each with its values as written and, by the path of the argument, as the call would have them."""
    taken, sums = [argument for argument, _ in document.fields], _find_sums(document, weighty)
    for record, values in document.rows:
        cells = _strip_currencies(dict(zip(taken, values, strict=True)), sums)
        if cells is not None:
            yield record, values, cells


def _find_sums(document: _Document, weighty: list[Argument]) -> dict[str, str]:
    """Find the cells with a currency from which the call takes a bare amount, by the path of the argument."""
    amounts = {each.leaf.path for each in weighty if _is_plain_amount(each)}
    _, own = document.rows[0]
    pairs = zip(document.fields, own, strict=True)
    return {path: cell for (path, _), cell in pairs if path in amounts and not _PLAIN.fullmatch(cell)}


def _sum_amounts(bodies: Iterable[str]) -> Decimal | None:
    """Add up amounts, each in its largest reading; None if one of them cannot be read, or is negative."""
    total = Decimal(0)
    for body in bodies:
        readings = [*map(read_amount_key, read_amounts(body))]
        if not readings or min(readings) < 0:
            return None
        total += max(readings)
    return total


def _find_limit(case: Case, rows: Iterable[RowTerms]) -> Decimal:
    """Return the amount of all rows, or the operator's limit if it is lower."""
    total = sum((row.amount for row in rows), Decimal(0))
    declared = case.policy.endorse_limit
    return total if declared == inf else min(total, Decimal(str(declared)))
