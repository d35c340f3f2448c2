"""Values that the request leaves to a document that it names.

The request gives no value of the kind, and a place of the document has only this one: the named documents as a whole,
their row or sentence that has a word of the request, the row that the call copies, the titles of all texts. One table
has the kinds of values that each place may give. A text that the request did not name neither opens nor closes a place,
but for a title.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import build_word_pattern
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.evidence.readings import (
    MOMENTS,
    drop_weekdays,
    find_clocks,
    is_in_other_currency,
    list_currencies,
    read_amount_places,
    read_amounts,
    read_keys,
    read_moment,
    read_money,
)
from agentserver.provenance.judging.amounts import is_only_amount, is_within_limits, list_given_amounts
from agentserver.provenance.judging.authority import (
    is_judged_as_moment,
    is_requested,
    list_chosen_fields,
    list_homes,
)
from agentserver.provenance.observations.choosing import LETTERS
from agentserver.provenance.policy.forms import is_single_digit
from agentserver.provenance.request.today import read_given_moments
from agentserver.provenance.request.trusted_words import has_form_of, list_telling_words, split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.request.trusted_words import TrustedWords


class Place(Enum):
    """Place of a document to which the request leaves a value."""

    DOCUMENTS = auto()
    """All named documents."""
    ROW = auto()
    """The only line of a list that has a word of the request."""
    COPY = auto()
    """The only line of a list that has another value of the call, and nothing beyond the call's values."""
    SENTENCE = auto()
    """The document that a sentence of the request names, or its only sentence with another word of it."""
    TITLES = auto()
    """The titles of all texts."""


class Kind(Enum):
    """Kind of value."""

    AMOUNTS = auto()
    DAYS = auto()
    CLOCKS = auto()
    """Times of day without a day."""
    CODES = auto()
    """Words with a digit."""


LINES: Final = 64
"""Maximum lines of the named documents with a value of one kind."""
LIST: Final = 2
"""Minimum lines of a list."""
PEERS: Final = 8
"""Maximum other choices, amounts and times of a call."""
LENGTH: Final = 1 << 14
"""Maximum characters of the documents that a sentence names, or whose lines are read."""
LABEL: Final = 4
"""Minimum characters of a value by which a call copies a row, and of a code in a title."""

_CODE: Final = re.compile(
    r"(?<![^\s,;:|()<>])(?=[^\s,;:|()<>]*\d)[^\W_](?:[\w./+-]{0,62}\w)?(?![^\s,;:|().!?<>])"
)
_PRICE: Final = re.compile(r"\d{1,12}[.,]\d\d")
_TITLE: Final = re.compile(r"\S{1,40}(?: \S{1,40}){1,7}")
_MARKS: Final = ".,;:!?()[]|"
_LEFT: Final = {Role.SELECTOR, Role.QUANTITY, Role.TIME}


def is_left_to(case: Case, argument: Argument, place: Place) -> bool:
    """Check whether the request leaves the value of an argument to a place of the documents."""
    key = id(argument), place
    if key not in case.left:  # the argument is kept with it, so that no other one has its id
        kinds = [kind for kind in _list_kinds(argument) if kind in _PLACES[place]]
        case.left[key] = argument, any(_is_kind_left_to(case, kind, argument, place) for kind in kinds)
    return case.left[key][1]


def _is_kind_left_to(case: Case, kind: Kind, argument: Argument, place: Place) -> bool:
    """Check whether the request leaves a value of a kind to a place; an amount is within the limits that it gives."""
    is_allowed = kind is not Kind.AMOUNTS or is_within_limits(case, argument)
    return is_allowed and _PLACES[place][kind](case, kind, argument)


def _list_kinds(argument: Argument) -> frozenset[Kind]:
    """List the kinds that a value may be of; none if no document may give it. A word in digits may be a price."""
    body, role = argument.body.strip(), argument.rule.role
    if role in {Role.SELECTOR, Role.TIME} and _read_clock(argument):
        return frozenset({Kind.CLOCKS})
    if is_judged_as_moment(argument):
        return frozenset({Kind.DAYS})
    if role is Role.QUANTITY:
        return frozenset({Kind.AMOUNTS})
    if role is not Role.SELECTOR:
        return frozenset()
    prices = {Kind.AMOUNTS} if _PRICE.fullmatch(body) else set()
    codes = {Kind.CODES} if _CODE.fullmatch(body) and not argument.rule.id else set()
    return frozenset(prices | codes)


def _read_clock(argument: Argument) -> str:
    """Read the time of day of a value without a day; empty for other values."""
    moment = read_moment(argument.leaf.value)
    return "" if moment is None or moment.day is not None or moment.clock is None else moment.clock.shown


def _is_given(case: Case, kind: Kind, argument: Argument) -> bool:
    """Check whether the request gives a value of a kind, or a code of the argument's shape."""
    if kind is Kind.CODES:
        shape = _build_shape(argument.body.strip(), letters=True)
        said = _CODE.finditer(" ".join(case.ledger.asked.audible))
        return any(_build_shape(match[0], letters=True) == shape for match in said)
    if kind is Kind.AMOUNTS:
        return bool(list_given_amounts(case, argument))
    return bool(read_given_moments(case.ledger.asked, case.policy.conventions))


def _read(
    case: Case, kind: Kind, argument: Argument, text: str, *, money: bool = False
) -> frozenset[frozenset[str]]:
    """Read the values of a kind in a text, each in all its readings; amounts with a currency alone if ``money``."""
    if kind is Kind.AMOUNTS:
        return read_amount_places(text, money=money)
    if kind is Kind.CLOCKS:
        return frozenset(frozenset({clock.shown}) for clock in find_clocks(text))
    if kind is Kind.DAYS:
        known = {"", "en", *case.policy.conventions}
        read = (key.partition("@") for key in read_keys(text) if key.startswith(MOMENTS))
        keys = {key if convention in known else f"{key}@{convention}" for key, _, convention in read}
        return frozenset(frozenset({key}) for key in drop_weekdays(keys))
    codes = _find_codes_like(case, argument.body.strip(), text)
    return frozenset(frozenset({code}) for code in codes)


def _is_only(argument: Argument, kind: Kind, found: frozenset[frozenset[str]], readings: int = 1) -> bool:
    """Check whether a value is the only one found, and that has no more than some number of readings."""
    wanted = {argument.body.strip()}
    if kind is Kind.AMOUNTS:
        wanted = {*read_amounts(argument.leaf.value)}
    elif kind is Kind.CLOCKS:
        wanted = {_read_clock(argument)}
    elif kind is Kind.DAYS:
        moment = read_moment(argument.leaf.value)
        wanted = {f"date {moment.day}"} if moment is not None and moment.clock is None else set()
    only = next(iter(found)) if len(found) == 1 else frozenset[str]()
    return bool(wanted) and wanted <= only and len(only) <= readings


def _is_in_documents(case: Case, _kind: Kind, argument: Argument) -> bool:
    return is_only_amount(case, argument)


def _is_in_row(case: Case, kind: Kind, argument: Argument) -> bool:
    """Check whether a value is the only one of its kind in the row that the principal's words name.

    A row is one of several lines with a value of the kind, or a line with a digit, since it may be written in a way
    that is not read here. One sentence is no row: a request that asks about something shares words with any answer.
    """
    if not case.named_text or (kind is Kind.CODES and case.receivers) or _is_given(case, kind, argument):
        return False
    documents = [body.split("\n") for body in case.named_texts]
    values = {line: _read(case, kind, argument, line) for lines in documents for line in lines}
    filled = ([line for line in lines if values[line]] for lines in documents)
    rows = [line for lines in filled if len(lines) >= LIST for line in lines]
    others = [
        line for lines in documents for line in lines if not values[line] and _has_own_digit(case, line)
    ]
    lines = [*rows, *others]
    words = list_telling_words(" ".join(case.ledger.asked.audible))
    named = [line for line in lines if len(lines) <= LINES and has_form_of(line, words)]
    return len(named) == 1 and _is_only_of_row(case, kind, argument, named[0], rows)


def _is_only_of_row(
    case: Case, kind: Kind, argument: Argument, line: str, rows: Sequence[str], readings: int = 1
) -> bool:
    """Check whether a value is the only one of its kind in a row. If all rows give money, no other number counts."""
    money = kind is Kind.AMOUNTS and all(map(read_money, rows))
    if kind is Kind.AMOUNTS and is_in_other_currency(argument.leaf.value, list_currencies(line)):
        return False
    return _is_only(argument, kind, _read(case, kind, argument, line, money=money), readings)


def _has_own_digit(case: Case, line: str) -> bool:
    """Check whether a line has a digit outside of what the request itself gives, such as the number of the document."""
    tokens = (token.strip(_MARKS) for token in line.split() if any(map(str.isdigit, token)))
    return any(not case.ledger.asked.mentions(token, any_case=True) for token in tokens)


def _is_in_copied_row(case: Case, kind: Kind, argument: Argument) -> bool:
    """Check whether a call copies a row of a named document whole, in which a value is the only one of its kind.

    Another value of the call is in this row alone, and the row has no word that the call has not. The call has no
    receiver. The request gives no day and no time; it may count the rows.
    """
    if case.receivers or case.orders_nothing or not case.named_text:
        return False
    if kind is not Kind.AMOUNTS and _is_given(case, kind, argument):
        return False
    lines = [line for body in case.named_texts for line in body.split("\n")]
    rows = [line for line in lines if _read(case, kind, argument, line)]
    if not LIST <= len(rows) <= LINES:
        return False
    peers = [each for each in case.arguments if each is not argument and len(each.body.strip()) >= LABEL]
    content = {Role.PAYLOAD, Role.SELECTOR}
    labels = [build_word_pattern(each.body.strip()) for each in peers if each.rule.role in content]
    times = [build_word_pattern(each.body.strip()) for each in peers if each.rule.role is Role.TIME]
    named = [line for label in labels if len(found := [*filter(label.search, rows)]) == 1 for line in found]
    return any(_is_only_of_copy(case, kind, argument, line, [*labels, *times], rows) for line in named)


def _is_only_of_copy(
    case: Case,
    kind: Kind,
    argument: Argument,
    line: str,
    labels: Sequence[re.Pattern[str]],
    rows: Sequence[str],
) -> bool:
    """Check whether all words of a row are in the call, and the rest has one value of a kind."""
    for label in labels:
        line = label.sub(" ", line)
    return not list_telling_words(line) and _is_only_of_row(case, kind, argument, line, rows, LIST)


def _is_in_sentence(case: Case, kind: Kind, argument: Argument) -> bool:
    """Check whether a sentence of the request leaves a value to the one document that it names.

    *Move the dry cows to the paddock that the notes on F-03 call ready* names the thing and who knows the place. The
    sentence asks no question and holds every other choice, amount and time of the call, and one of them is not the
    document's name. The document is one record. It has no other value of this kind, or one sentence with such a value
    that has a word of the request; words that name the document or a record of the call do not count.
    """
    if case.ledger.overflow or case.receivers or _is_given(case, kind, argument):
        return False
    peers = [each for each in case.arguments if each is not argument and _is_peer(case, each)]
    if not 0 < len(peers) <= PEERS:
        return False
    orders = (order for order in case.orders if all(_is_said_in(case, order, each) for each in peers))
    return any(_leaves_open(case, order, peers, kind, argument) for order in orders)


def _is_peer(case: Case, argument: Argument) -> bool:
    """Check whether an argument has to be said: one of several listed values, and a single digit, are judged alone."""
    is_weighty = argument.rule.role in _LEFT and not is_single_digit(argument.body)
    return is_weighty and not case.is_listed_option(argument)


def _find_codes_like(case: Case, code: str, text: str) -> frozenset[str]:
    """Find the codes of a text with the shape of another one, but those that the request gives."""
    codes = {match[0] for match in _CODE.finditer(text) if _build_shape(match[0]) == _build_shape(code)}
    return frozenset(each for each in codes if not case.ledger.asked.mentions(each, any_case=True))


def _build_shape(code: str, *, letters: bool = False) -> str:
    """Build a code's shape: one sign for each run of digits, each mark, and each run of letters unless these count."""
    shape = re.sub(r"[./+-]", "-", re.sub(r"\d+", "0", code.casefold()))
    return shape if letters else re.sub(r"[^\W\d_]+", "a", shape)


def _is_said_in(case: Case, order: TrustedWords, peer: Argument) -> bool:
    """Check whether a sentence of the request holds a value, or names the chosen record that the value is from."""
    if is_requested(case.copy_for_words(order), peer):
        return True
    homes = list_homes(list_chosen_fields(case, [peer]))
    return any(record_of(text.origin) in homes for text in _list_chosen(case, order))


def _list_chosen(case: Case, order: TrustedWords) -> list[Text]:
    """List the fields of chosen records that a sentence of the request holds."""
    fields = (text for text in case.records if text.chosen and len(text.body.strip()) >= LETTERS)
    return [text for text in fields if order.mentions(text.body, any_case=True)]


def _leaves_open(
    case: Case, order: TrustedWords, peers: Sequence[Argument], kind: Kind, argument: Argument
) -> bool:
    """Check whether the document that a sentence names gives a value alone, or in the only sentence that is meant."""
    own = frozenset(word for each in peers for word in _list_own_words(case, each))
    texts = _list_named(case, order, own)
    is_single = len(list_homes(texts)) == 1
    if not is_single or sum(len(text.body) for text in texts) > LENGTH:
        return False
    units = [unit for text in texts for unit in split_sentences(text.body)]
    found = {unit: values for unit in units if (values := _read(case, kind, argument, unit))}
    if all(_is_only(argument, kind, values) for values in found.values()):
        return bool(found)
    names = " ".join(name for text in texts for name in text.names)
    said = list_telling_words(" ".join(order.queries)) - own - list_telling_words(names)
    meant = [values for unit, values in found.items() if has_form_of(unit, said)]
    return len(meant) == 1 and _is_only(argument, kind, meant[0])


def _list_own_words(case: Case, peer: Argument) -> Iterator[str]:
    """List the words in an argument, and in the chosen record that it is from."""
    fields = (text.body for text in list_chosen_fields(case, [peer]))
    return (word for body in (peer.body, *fields) for word in _list_words(body))


def _list_named(case: Case, order: TrustedWords, own: frozenset[str]) -> list[Text]:
    """List the texts of the documents, and of the records of sources, that a sentence of the request names.

    A name is no word of the call's own: a text found under these is about the thing, and the sentence means another.
    A record needs a field with a digit, which is an id.
    """
    fields = [text for text in _list_chosen(case, order) if any(map(str.isdigit, text.body))]
    homes = list_homes(text for text in fields if _names_more(text.body, own))
    return [
        text
        for text in case.read_texts
        if record_of(text.origin) in homes
        or (
            text.asked and any(order.mentions_plainly(name) and _names_more(name, own) for name in text.names)
        )
    ]


def _names_more(name: str, own: frozenset[str]) -> bool:
    """Check whether a name has a word that the call has not."""
    return any(word not in own for word in _list_words(name))


def _list_words(text: str) -> Iterator[str]:
    """List the folded words of a text, and its numbers."""
    yield from (word for word, _, _ in find_words(text))
    yield from re.findall(r"\d+", text)


def _is_in_titles(case: Case, _kind: Kind, argument: Argument) -> bool:
    """Check whether a value is the only code in the titles of all texts, such as the number of an invoice.

    A title is a field of two to eight words, or such a line without an amount if no field of a named document has a
    code, and no other code is above it. A document that nobody named may not have a title with another code.
    """
    texts = [text for text in case.read_texts if text.origin.path]
    named = [text.body for text in texts if text.asked]
    if not _list_title_codes(named):
        first = next((match[0] for body in named for match in _CODE.finditer(body)), "")
        if first != argument.body.strip() or sum(map(len, named)) > LENGTH:
            return False
        named = [
            line for body in named for line in body.split("\n") if not read_amount_places(line, money=False)
        ]
    others = (text.body for text in texts if not text.asked)
    return _list_title_codes((*named, *others)) == {argument.body.strip()} == _list_title_codes(named)


def _list_title_codes(texts: Iterable[str]) -> set[str]:
    """List the codes in titles. A year is no code."""
    titles = filter(_TITLE.fullmatch, map(str.strip, texts))
    found = {match[0] for title in titles for match in _CODE.finditer(title)}
    return {code for code in found if len(code) > LABEL or (len(code) == LABEL and not code.isdigit())}


_PLACES: Final[Mapping[Place, Mapping[Kind, Callable[[Case, Kind, Argument], bool]]]] = {
    Place.DOCUMENTS: {Kind.AMOUNTS: _is_in_documents},
    Place.ROW: dict.fromkeys({Kind.AMOUNTS, Kind.DAYS, Kind.CODES}, _is_in_row),
    Place.COPY: dict.fromkeys({Kind.AMOUNTS, Kind.DAYS, Kind.CLOCKS}, _is_in_copied_row),
    Place.SENTENCE: {Kind.AMOUNTS: _is_in_sentence, Kind.CODES: _is_in_sentence},
    Place.TITLES: {Kind.CODES: _is_in_titles},
}
"""Check of each place for the kinds of values that it may give. ``moments`` reads the moments of whole documents."""
