"""The form of a value where nothing is declared: what it can do as an argument, and what it is worth as a field.

Owns the reading of forms alone: types, addresses, links, single words, running text. Refuses to look at names of
fields and listeners, which whoever makes a tool chooses freely, and to give a form the worth of a directory.
"""

from __future__ import annotations

import re
from datetime import date, time
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import PlaceForm, destination, listed, loosened
from agentserver.provenance.evidence.inventory import is_file
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.leaves import text_of

if TYPE_CHECKING:
    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Scalar

WORDS: Final = 3
"""Words that a declared choice has at most; more of them are composed."""
CHOICE: Final = 64
"""Longest name or other choice, in characters."""
RECORD: Final = 100
"""Longest value, in characters, that a field declared as a record or a directory can guarantee."""

_COUNT: Final = re.compile(r"-?\d{1,2}(?:\.0+)?")
"""A number that tells next to nothing: a count, a page, a limit."""
_HANDLE: Final = re.compile(r"[\w.:-]{1,64}")
_BETWEEN: Final = re.compile(r"[\s,;|]+")
_DATED: Final = re.compile(r"\d[\d:. /+-]{0,39}(?:T\d[\d:.+-]{0,29})?(?: ?(?:Z|UTC|[AaPp][Mm]))?")
"""A moment, in digits: with words among them it would be a sentence that begins with a number."""


def role_of(value: Scalar) -> Role:
    """The role that the form of an argument suggests."""
    if value is None or isinstance(value, bool):
        return Role.INERT
    if isinstance(value, date | time):
        return Role.TIME
    if not isinstance(value, str):
        return Role.INERT if _COUNT.fullmatch(text_of(value)) else Role.QUANTITY
    if points(value):
        return Role.DESTINATION
    return Role.PAYLOAD if len(value.split()) > 1 else Role.SELECTOR


def standing_of(path: str, value: Scalar) -> Standing:
    """The worth of a field of an untrusted source that is not declared.

    What is no text, and a single word or a moment that fills a field of a structure, is bookkeeping; whatever can
    receive something, and every text with words in it, is its author's.
    """
    if not isinstance(value, str):
        return Standing.RECORD
    body = value.strip()
    plain = bool(path) and (_HANDLE.fullmatch(body) or _DATED.fullmatch(body))
    return Standing.RECORD if plain and not points(body) else Standing.PROSE


def points(text: str) -> bool:
    """True when a text is an address, a link or an account, a list of addresses, or a word with one in it."""
    body = text.strip()
    if is_file(body):
        return False
    if any(places and all(map(_receives, places)) for places in map(listed, (body, loosened(body)))):
        return True
    words = [word for word in _BETWEEN.split(body) if word]
    if words and all(_receives(destination(word)) for word in words):
        return True
    slashed = "://" in body or (
        "//" in body and len(body) <= CHOICE
    )  # two slashes stand in long base64 as well
    return len(body.split()) <= WORDS and (slashed or ("@" in body[1:] and "." in body))


def _receives(place: Destination) -> bool:
    """True for a place by itself. A word before a colon is as often the kind of an id as a scheme."""
    return (
        place.form in {PlaceForm.ADDRESS, PlaceForm.ACCOUNT} or bool(place.host) or place.scheme == "mailto"
    )


def runs_on(text: str) -> bool:
    """True for running text: several words, or lines."""
    return len(text) > CHOICE or len(text.split()) > WORDS or "\n" in text.strip()


def tells(text: str) -> bool:
    """True for what tells a reader something, whatever its field is worth: a sentence, or words around a place.

    Whoever may fill the field may write an order into it.
    """
    words = [word for word in _BETWEEN.split(text.strip()) if word]
    if len(text.split()) > WORDS and len(words) > WORDS:
        return not all(_receives(destination(word)) for word in words)
    return 0 < sum(_receives(destination(word)) for word in words) < len(words)


def is_long(text: str) -> bool:
    """True for what is its author's words even where its field is declared to be a record."""
    return len(text) > RECORD or "\n" in text.strip()
