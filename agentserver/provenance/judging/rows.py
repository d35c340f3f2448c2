"""Values that the request leaves to one row of a document that it names.

A row is one of several lines of a text that have a value of the wanted kind. The request names it by a word that no
other line with a value or a digit has: the call's value chooses the kind, and a line may be written in a way that is
not read here. A text that the request did not name changes nothing here, so that whoever writes one neither opens nor
closes a row.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.readings import (
    MOMENTS,
    drop_weekdays,
    is_in_other_currency,
    list_currencies,
    read_amounts,
    read_keys,
    read_moment,
    read_money,
)
from agentserver.provenance.judging.authority import is_judged_as_moment
from agentserver.provenance.judging.case import NamedRow, RowKind
from agentserver.provenance.request.trusted_words import has_form_of, list_telling_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.provenance.judging.case import Argument, Case

LINES: Final = 64
"""Maximum lines of the named documents with a value of one kind."""
LIST: Final = 2
"""Minimum lines of a list."""

CODE: Final = re.compile(r"(?<![^\s,;:|()])(?=[^\s,;:|()]*\d)[^\W_](?:[\w./+-]{0,62}\w)?(?![^\s,;:|().!?])")


def is_in_named_row(case: Case, argument: Argument) -> bool:
    """Check whether a value is the only one of its kind in the row that the principal's words name.

    The words give no value of that kind themselves. One sentence is no row: a request that asks about something shares
    words with any answer.
    """
    kind = _find_kind(argument)
    if kind is None or not case.named_text:
        return False
    if kind not in case.rows:
        case.rows[kind] = _find_row(case, kind)
    row = case.rows[kind]
    return row is not None and _is_only_value(argument, kind, row)


def _find_kind(argument: Argument) -> RowKind | None:
    """Find the kind of an argument; None if no row has such values."""
    if is_judged_as_moment(argument):
        return RowKind.DAYS
    if argument.rule.role is Role.QUANTITY:
        return RowKind.AMOUNTS
    body = argument.body.strip()
    if argument.rule.role is not Role.SELECTOR or not CODE.fullmatch(body):
        return None
    return RowKind.LETTERED if _has_letter(body) else RowKind.FIGURES


def _find_row(case: Case, kind: RowKind) -> NamedRow | None:
    """Find the row that the words name among those with values of a kind; None if there is no such one."""
    find_values = _choose_reader(case, kind)
    if find_values is None:
        return None
    documents = [body.split("\n") for body in case.named_texts]
    values = {line: find_values(line) for lines in documents for line in lines}
    filled = ([line for line in lines if values[line]] for lines in documents)
    rows = [line for lines in filled if len(lines) >= LIST for line in lines]
    others = (
        line for lines in documents for line in lines if not values[line] and _has_own_digit(case, line)
    )
    lines = [*rows, *others]
    words = list_telling_words(" ".join(case.ledger.asked.audible))
    named = [line for line in lines if len(lines) <= LINES and has_form_of(line, words)]
    if len(named) != 1:
        return None
    [line] = named
    if kind is not RowKind.AMOUNTS:
        return NamedRow(values[line], frozenset())
    return NamedRow(read_money(line) if all(map(read_money, rows)) else values[line], list_currencies(line))


def _choose_reader(case: Case, kind: RowKind) -> Callable[[str], frozenset[str]] | None:
    """Choose what reads the values of a kind; None if the request gives one, or a receiver might get a code."""
    given = case.ledger.asked.read_values(case.policy.conventions)
    if kind is RowKind.DAYS:
        known = frozenset({"", "en", *case.policy.conventions})
        return None if any(key.startswith(MOMENTS) for key in given) else partial(_read_days, known)
    if kind is RowKind.AMOUNTS:
        return None if any(key.startswith("amount ") for key in given) else _read_amount_keys
    find_codes = partial(_find_codes, lettered=kind is RowKind.LETTERED)
    return None if case.receivers or find_codes(" ".join(case.ledger.asked.audible)) else find_codes


def _read_days(known: frozenset[str], line: str) -> frozenset[str]:
    """Read the days and times of a line, as the known conventions have them; one of another convention stays apart."""
    read = (key.partition("@") for key in read_keys(line) if key.startswith(MOMENTS))
    keys = {key if convention in known else f"{key}@{convention}" for key, _, convention in read}
    return drop_weekdays(keys)


def _read_amount_keys(line: str) -> frozenset[str]:
    return frozenset(key for key in read_keys(line) if key.startswith("amount "))


def _find_codes(line: str, *, lettered: bool) -> frozenset[str]:
    return frozenset(match[0] for match in CODE.finditer(line) if _has_letter(match[0]) is lettered)


def _has_letter(code: str) -> bool:
    return any(map(str.isalpha, code))


def _has_own_digit(case: Case, line: str) -> bool:
    """Check whether a line has a digit outside of what the request itself gives, such as the number of the document."""
    tokens = (token.strip(_MARKS) for token in line.split() if any(map(str.isdigit, token)))
    return any(not case.ledger.asked.mentions(token, any_case=True) for token in tokens)


_MARKS: Final = ".,;:!?()[]|"


def _is_only_value(argument: Argument, kind: RowKind, row: NamedRow) -> bool:
    value = argument.leaf.value
    if kind is RowKind.DAYS:
        moment = read_moment(value)
        return moment is not None and moment.clock is None and row.values == {f"date {moment.day}"}
    if kind is RowKind.AMOUNTS:
        is_single = len(row.values) == 1 and not is_in_other_currency(value, row.currencies)
        return is_single and read_amounts(value) == row.values
    return row.values == {argument.body.strip()}
