"""Form of a value without a declaration: its role as an argument and its worth as a field.

Looks only at types, addresses, links, single words and running text. It never looks at the names of fields or
listeners, which the author of a tool chooses freely, and no form is worth a directory.
"""

from __future__ import annotations

import re
from datetime import date, time
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import (
    NETWORK_SCHEMES,
    PlaceForm,
    loosen,
    parse_destination,
    parse_list,
)
from agentserver.provenance.evidence.inventory import is_file
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.evidence.readings import is_moment, list_currencies, read_amounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Scalar

WORDS: Final = 3
"""Maximum words of a declared choice. More of them are a composed text."""
CHOICE: Final = 64
"""Longest name or other choice, in characters."""
RECORD: Final = 100
"""Longest value, in characters, that a field declared as a record or a directory can guarantee."""

WEIGHTY: Final = 10
"""Smallest count that decides something. A single digit is in every text."""

_NUMBERS: Final = (int, float, Decimal)
_SUM: Final = re.compile(r"[$€£¥₹₽]")
"""Sign of a currency, which makes a word an amount."""
_COUNT: Final = re.compile(r"-?\d{1,2}(?:\.0+)?")
"""Number that reveals next to nothing: a count, a page or a limit."""
_HANDLE: Final = re.compile(r"#\d{1,20}|(?=.{1,64}$)[\w.:+-]+(?:/[\w.+-]+){0,7}")
"""One word, a number such as ``#1190``, or a path of several words such as ``owner/name`` and ``Europe/Lisbon``."""
_OBJECT: Final = re.compile(
    r"([a-z][a-z0-9+-]{1,20})://[a-z][a-z0-9-]{0,30}(?:/[A-Za-z]{2,40}){1,2}/\d{1,20}"
)
"""Number of a thing of some kind in an application, under a scheme of its own, such as ``gid://shop/Order/1042``."""
HANDLE: Final = re.compile(r"[A-Za-z]{1,3}\d{1,4}")
"""Handle that a page gives to one of its parts: no word, so that it grants nothing by itself."""
_LONG: Final = re.compile(r"(?:\d\W{0,3}){6}")
"""Six digits, more than a count or a score has."""
_PART: Final = re.compile(r"[^\s,;|]+")
"""Word, or a part of a list."""
_DATED: Final = re.compile(r"\d[\d:. /+-]{0,39}(?:T\d[\d:.+-]{0,29})?(?: ?(?:Z|UTC|[AaPp][Mm]))?")
"""Moment in digits. With words in it, it would be a sentence that begins with a number."""


def derive_role(value: Scalar) -> Role:
    """Derive the role of an argument from its form."""
    if value is None or isinstance(value, bool):
        return Role.INERT
    if isinstance(value, date | time):
        return Role.TIME
    if not isinstance(value, str):
        return Role.INERT if is_count(format_text(value)) else Role.QUANTITY
    if names_receiver(value):
        return Role.DESTINATION
    several = len(value.split(None, 1)) > 1
    amount_or_moment = _find_measure(value, several=several)
    return amount_or_moment or (Role.PAYLOAD if several and not is_grouped_number(value) else Role.SELECTOR)


def derive_argument_role(value: Scalar) -> Role:
    """Derive the role of an argument of a sink: a count from ten on decides as an amount does."""
    if isinstance(value, _NUMBERS):
        number = value if isinstance(value, int) else float(value)  # a long integer is no float
        if abs(number) >= WEIGHTY:
            return Role.QUANTITY
    return derive_role(value)


def is_grouped_number(text: str) -> bool:
    """Check whether a text is a long number in groups, such as a telephone's or an account's, which says nothing."""
    return len(text) <= CHOICE and _LONG.search(text) is not None and not any(map(str.isalpha, text))


def _find_measure(text: str, *, several: bool) -> Role | None:
    """Find out whether a text is a moment in several words, or a sum of money; None for another text."""
    if len(text) > CHOICE or not (several or _SUM.search(text)) or not any(map(str.isdigit, text)):
        return None
    if several and is_moment(text):
        return Role.TIME
    unit = list_currencies(text) or not any(map(str.isalpha, text))
    return Role.QUANTITY if unit and read_amounts(text) else None


def derive_standing(path: str, value: Scalar) -> Standing:
    """Derive the worth of an undeclared field of an untrusted source.

    A value that is not text, and a single word or moment that fills a field of a structure, is bookkeeping. A value
    that can receive something, and every text with words in it, is prose.
    """
    if not isinstance(value, str):
        return Standing.RECORD
    body = value.strip()
    plain = bool(path) and (_HANDLE.fullmatch(body) or _DATED.fullmatch(body) or is_object_id(body))
    return Standing.RECORD if plain and not names_receiver(body) else Standing.PROSE


def is_count(text: str) -> bool:
    """Check whether a text is a number of up to two digits, which reveals next to nothing."""
    return _COUNT.fullmatch(text) is not None


def is_single_digit(text: str) -> bool:
    """Check whether a text is a number of one digit, which is in every text."""
    return is_count(text) and abs(float(text)) < WEIGHTY


def names_receiver(text: str) -> bool:
    """Check whether a text is an address, a link, an account, a list of addresses, or a word with one in it."""
    body = text.strip()
    if not _MARK.search(body) or is_file(body) or is_object_id(body):
        return False
    if any(places and all(map(_receives, places)) for places in map(parse_list, (body, loosen(body)))):
        return True
    first = _PART.search(body)
    if first is not None and all(_word_receives(part[0]) for part in _PART.finditer(body)):
        return True
    slashed = "://" in body or (
        "//" in body and len(body) <= CHOICE
    )  # two slashes stand in long base64 as well
    return len(body.split(None, WORDS)) <= WORDS and (slashed or ("@" in body[1:] and "." in body))


def _word_receives(word: str) -> bool:
    return _MARK.search(word) is not None and _receives(parse_destination(word))


_MARK: Final = re.compile(r"[^\x00-\x7f]|[.:@/\[\d]")
"""One of the characters without which a text is no address, link, host or account."""


def is_object_id(text: str) -> bool:
    """Check whether a text is the number of a thing under a scheme of its own, which no host can receive."""
    found = _OBJECT.fullmatch(text.strip())
    return found is not None and found[1] not in NETWORK_SCHEMES


def _receives(place: Destination) -> bool:
    """Check whether a place can receive by itself. A word before a colon may be the kind of an id, not a scheme."""
    return (
        place.form in {PlaceForm.ADDRESS, PlaceForm.ACCOUNT} or bool(place.host) or place.scheme == "mailto"
    )


def is_running_text(text: str) -> bool:
    """Check whether a text has several words or lines."""
    return len(text) > CHOICE or len(text.split()) > WORDS or "\n" in text.strip()


def has_prose(text: str) -> bool:
    """Check whether a text can instruct its reader: it is a sentence, or has words around a place.

    A stranger who may fill the field may write an order into it, regardless of the field's worth.
    """
    parts: Iterator[str] = (part[0] for part in _PART.finditer(text))
    if len(text.split(None, WORDS)) > WORDS:
        first = [*islice(parts, WORDS + 1)]
        if len(first) > WORDS:
            return not all(_word_receives(part) for part in chain(first, parts))
        parts = iter(first)
    received = [_word_receives(part) for part in parts]
    return 0 < sum(received) < len(received)


def is_long(text: str) -> bool:
    """Check whether a text is too long to be a record, even if its field is declared as one."""
    return len(text) > RECORD or "\n" in text.strip()
