"""One JSON document that is read in pieces, without being held.

Members and items between two brackets are read by one expression.
"""

from __future__ import annotations

import json
import re
from collections import deque
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import Final

from agentserver.handoff.requests import LONGEST, TYPE

__all__ = ["LEVELS", "STRINGS", "WHOLE", "Claim", "Step", "TextDocument"]

LEVELS: Final = 1 << 20
"""Objects and arrays inside one another that are distinguished; deeper ones are no JSON here."""
RUN: Final = 1000
"""Brackets that are opened at once."""
_NUMBER_MOST: Final = 64
_NAME_MOST: Final = 6 * len(TYPE) + 2  # every character escaped


class _ExpectedTokens(Enum):
    """The tokens that may come next."""

    FIRST_KEY = "a key or the end of an empty object"
    KEY = "a key"
    COLON = "a colon"
    VALUE = "a value"
    FIRST_VALUE = "a value or the end of an empty array"
    NEXT = "a comma or an end"


class Step(Enum):
    """The ways in which a document continues."""

    ON = "on"
    WAIT = "wait for more text"
    FAIL = "this is no JSON"
    CLOSED = "an object of the type of a request is closed"
    DONE = "the document is complete"


@dataclass(slots=True)
class Claim:
    """An open object of the type of a request.

    Args:
        level: objects and arrays around it.
        start: of its brace.
        end: the place behind its type.
        reported: whether it is known to be longer than a request may be.
    """

    level: int
    start: int
    end: int
    reported: bool = False


_S: Final = r"[ \t\n\r]*+"
_STRING: Final = r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]{1,18}+)?(?:[eE][-+]?[0-9]{1,3}+)?"
_SCALAR_PART: Final = rf"(?:{_NUMBER}|true|false|null)(?![-+.0-9A-Za-z])"
_SAYS_SO: Final = rf'{_S}:{_S}"(?:{TYPE}"|[^"\\]*+\\)'
_KEY: Final = rf'(?:"(?!type")[^"\\\x00-\x1f]*+"|"type"(?!{_SAYS_SO}))'
"""A key, unless its member may say that the object is a request: that one is read by itself."""


def _flat(value: str) -> str:
    """Return an object or an array of such values, written out in the expression once for each of the two."""
    members = rf'\{{{_S}(?:{_KEY}{_S}:{_S}{value}{_S}(?:,{_S}(?=")|(?=\}})))*+\}}'
    items = rf"\[{_S}(?:{value}{_S}(?:,{_S}(?!\])|(?=\])))*+\]"
    return rf"(?:{members}|{items})"


_PLAIN: Final = rf"(?:{_STRING}|{_SCALAR_PART})"
_PAIR: Final = rf"(?:{_PLAIN}|{_flat(_PLAIN)})"
_SHALLOW: Final = rf"(?:{_PLAIN}|{_flat(rf'(?:{_PLAIN}|{_flat(_PAIR)})')})"
"""A value of so many levels at most, without a request."""
_LEVELS: Final = 3
_MEMBERS: Final = re.compile(rf"(?:{_KEY}{_S}:{_S}{_SHALLOW}{_S}(?:,{_S}|(?=(\}}))))*+")
_ITEMS: Final = re.compile(rf"(?:{_SHALLOW}{_S}(?:,{_S}|(?=(\]))))*+")
WHOLE: Final = re.compile(_flat(_SHALLOW))
"""A document of one level more at most, without a request."""
STRINGS: Final = re.compile(_STRING)
_BARE: Final = r'"[^"\\{\[\x00-\x1f]*+"'
_BARE_KEY: Final = rf'(?!"type"){_BARE}{_S}:{_S}'
_BARE_VALUE: Final = rf"(?:{_BARE}|{_SCALAR_PART}){_S},{_S}"
_OBJECTS: Final = re.compile(rf"(?:\{{{_S}(?:{_BARE_KEY}{_BARE_VALUE})*+{_BARE_KEY}){{1,{RUN}}}+")
_ARRAYS: Final = re.compile(rf"(?:\[{_S}(?:{_BARE_VALUE})*+){{1,{RUN}}}+")
"""Levels that are opened in a row. No string in them has a bracket."""
_ENDS: Final = re.compile(r"[\]}]{1,64}+")
_SPACE: Final = re.compile(_S)
_BODY: Final = re.compile(_STRING[1:-1])
_ESCAPE_PART: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_WORD: Final = re.compile(r"[-+.0-9A-Za-z]*+")
_SCALAR: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_PARTNERS: Final = bytes.maketrans(b"}]", b"{[")
_OPENING: Final = {"}": 0x7B, "]": 0x5B}  # as in ``kinds``


class TextDocument:
    """An object or an array from its bracket on. Places are counted from the start of the whole text.

    ``kinds`` are the brackets that are open; ``claims`` those objects among them that are of the type of a request,
    the outermost first; ``answered`` the one that was closed last; ``lowest`` the fewest brackets that were open
    since it was set; ``strings`` the spans that hold strings, as far back as a request may reach, and whether they
    hold other things too; ``pos`` is the next place.
    """

    __slots__ = (
        *("_start", "_key", "_objects", "_quoted", "_typed", "_want"),
        *("answered", "claims", "kinds", "lowest", "pos", "start", "strings"),
    )

    def __init__(self, start: int) -> None:
        self.start = self.pos = start
        self.kinds = bytearray()
        self.claims: list[Claim] = []
        self.answered: Claim | None = None
        self.lowest = 0
        self.strings: deque[tuple[int, int, bool]] = deque(maxlen=LONGEST // 2)
        self._objects: deque[int] = deque(
            maxlen=LONGEST
        )  # the braces that are open, of which the first are forgotten
        self._want = _ExpectedTokens.VALUE
        self._quoted = False  # whether a string is being read
        self._key = False  # whether it is a key
        self._start = start  # where it begins
        self._typed = False  # whether the last key of the innermost object is ``type``

    def copy(self) -> TextDocument:
        """Return the same document, which continues independently."""
        other = copy(self)
        other.kinds, other.strings = copy(self.kinds), copy(self.strings)
        other._objects = copy(self._objects)  # noqa: SLF001 - one of its own
        other.claims = [copy(each) for each in self.claims]
        return other

    def read(self, text: str, base: int) -> Step:
        """Read on in a text whose first character has the place ``base``."""
        step = Step.ON
        while step is Step.ON:
            if self._quoted:
                step = self._scan_string(text, base)
                continue
            found = _SPACE.match(text, self.pos - base)
            assert found is not None
            at = found.end()
            self.pos = at + base
            if at == len(text):
                return Step.WAIT
            step = self._scan_token(text, at, base)
        return step

    def find_overdue(self) -> list[Claim]:
        """Return the claims that are now known to be longer than a request; each is given once."""
        overdue = [each for each in self.claims if not each.reported and self.pos - each.start > LONGEST]
        for each in overdue:
            each.reported = True
        return overdue

    def _scan_token(self, text: str, at: int, base: int) -> Step:
        char, want = text[at], self._want
        if char in "}]":
            return self._ends(text, at)
        if want in {_ExpectedTokens.COLON, _ExpectedTokens.NEXT}:
            return self._read_separator(char)
        if want in {_ExpectedTokens.KEY, _ExpectedTokens.FIRST_KEY}:
            return self._scan_members(text, at) if char == '"' else Step.FAIL
        if self.kinds[-1:] == b"[" and self._skip_plain(_ITEMS.match(text, at), _ExpectedTokens.VALUE):
            return Step.ON
        return self._open(text, at, base) if char in "{[" else self._scan_value(text, at, char)

    def _read_separator(self, char: str) -> Step:
        if self._want is _ExpectedTokens.COLON:
            return self._take(1, _ExpectedTokens.VALUE) if char == ":" else Step.FAIL
        if char != ",":
            return Step.FAIL
        return self._take(
            1, _ExpectedTokens.KEY if self.kinds[-1] == _OPENING["}"] else _ExpectedTokens.VALUE
        )

    def _take(self, length: int, want: _ExpectedTokens) -> Step:
        self.pos += length
        self._want = want
        return Step.ON

    def _skip_plain(self, found: re.Match[str] | None, next_one: _ExpectedTokens) -> bool:
        """Check whether an expression found members or items that are all of them plain."""
        if found is None or found.end() == found.start() or len(self.kinds) + _LEVELS > LEVELS:
            return False
        length = found.end() - found.start()
        self.strings.append((self.pos, self.pos + length, True))
        self._take(length, next_one if found[1] is None else _ExpectedTokens.NEXT)
        return True

    def _scan_members(self, text: str, at: int) -> Step:
        if not self._skip_plain(_MEMBERS.match(text, at), _ExpectedTokens.KEY):
            self._begin_string(key=True)
        return Step.ON

    def _begin_string(self, *, key: bool) -> None:
        self._quoted, self._key, self._start = True, key, self.pos
        self.pos += 1

    def _open(self, text: str, at: int, base: int) -> Step:
        char = text[at]
        found = (_OBJECTS if char == "{" else _ARRAYS).match(text, at)
        end = at + 1 if found is None else found.end()
        if len(self.kinds) + text.count(char, at, end) > LEVELS:
            found, end = None, at + 1
            if len(self.kinds) == LEVELS:
                return Step.FAIL
        self.kinds += char.encode() * text.count(char, at, end)
        if char == "[":
            return self._take(
                end - at,
                _ExpectedTokens.VALUE if text[at:end].rstrip().endswith(",") else _ExpectedTokens.FIRST_VALUE,
            )
        place = at
        while place >= 0:
            self._objects.append(place + base)
            place = text.find("{", place + 1, end)
        self._typed = False
        return self._take(end - at, _ExpectedTokens.FIRST_KEY if found is None else _ExpectedTokens.VALUE)

    def _scan_value(self, text: str, at: int, char: str) -> Step:
        if char == '"':
            self._begin_string(key=False)
            return Step.ON
        found = _WORD.match(text, at, at + _NUMBER_MOST + 1)
        assert found is not None
        if len(found[0]) > _NUMBER_MOST:
            return Step.FAIL
        if found.end() == len(text):
            return Step.WAIT
        return self._take(len(found[0]), _ExpectedTokens.NEXT) if _SCALAR.fullmatch(found[0]) else Step.FAIL

    def _ends(self, text: str, at: int) -> Step:
        """Close some levels that are closed in a row, as long as none has to be reported."""
        found = _ENDS.match(text, at)
        assert found is not None
        minimum = self.claims[-1].level + 1 if self.claims else 1
        many = min(len(found[0]), len(self.kinds) - minimum)
        ends = found[0][:many].encode().translate(_PARTNERS)[::-1]
        if self._want is not _ExpectedTokens.NEXT or many <= 1 or not self.kinds.endswith(ends):
            return self._close(text[at])
        for _ in range(min(ends.count(b"{"), len(self._objects))):
            self._objects.pop()
        del self.kinds[-many:]
        self.lowest = min(self.lowest, len(self.kinds))
        return self._take(many, _ExpectedTokens.NEXT)

    def _close(self, char: str) -> Step:
        empty = _ExpectedTokens.FIRST_KEY if char == "}" else _ExpectedTokens.FIRST_VALUE
        if self.kinds[-1] != _OPENING[char] or self._want not in {_ExpectedTokens.NEXT, empty}:
            return Step.FAIL
        self.kinds.pop()
        self.lowest = min(self.lowest, len(self.kinds))
        if char == "}" and self._objects:
            self._objects.pop()
        self._take(1, _ExpectedTokens.NEXT)
        if self.claims and self.claims[-1].level == len(self.kinds):
            self.answered = self.claims.pop()
            return Step.CLOSED
        return Step.ON if self.kinds else Step.DONE

    def _scan_string(self, text: str, base: int) -> Step:
        found = _BODY.match(text, self.pos - base)
        assert found is not None
        self._span(found.end() + base)
        if found.end() == len(text):
            return Step.WAIT
        if text[found.end()] != '"':
            return Step.WAIT if _ESCAPE_PART.match(text, found.end()) else Step.FAIL
        self._quoted = False
        self._take(1, _ExpectedTokens.COLON if self._key else _ExpectedTokens.NEXT)
        self._note_key(
            text[self._start - base : self.pos - base] if self.pos - self._start <= _NAME_MOST else ""
        )
        return Step.ON

    def _span(self, end: int) -> None:
        follows = bool(self.strings) and self.strings[-1][1:] == (self.pos, False)
        start = self.strings.pop()[0] if follows else self.pos
        if start < end:
            self.strings.append((start, end, False))
        self.pos = end

    def _note_key(self, key: str) -> None:
        """Remember whether a key is ``type``, and whether its value makes a request."""
        if "\\" in key:
            key = json.dumps(json.loads(key))
        if self._key:
            self._typed = key == '"type"'
            return
        level = len(self.kinds) - 1
        claimed = bool(self.claims) and self.claims[-1].level == level
        if self._typed and key == f'"{TYPE}"' and self.kinds[-1] == _OPENING["}"] and not claimed:
            start = (
                self._objects[-1] if self._objects else self.pos - LONGEST - 1
            )  # forgotten: it is too long
            self.claims.append(Claim(level, start, self.pos))
