"""Finding handoff requests in a text that arrives in pieces.

Owns an incremental scanner of JSON objects with bounds. Refuses to judge requests. A request may be nested
JSON, in any key order, cut anywhere, one of several, inside prose or code fences. What the scanner gives does
not depend on where the text was cut.

It tries each ``{`` in order. A candidate that is not JSON is dropped and the search goes on behind its brace,
so a stray brace in prose hides nothing. What is read again is bounded by the depth and the size of a
candidate.
"""

from __future__ import annotations

import json
import re
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from agentserver.handoff.requests import LONGEST, TYPE, RequestRefusal, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Scanner"]

DEPTH: Final = 32
"""Levels of a request."""
WORK: Final = 64
"""The number of times that a character may be read before a candidate that keeps failing is given up."""
_NUMBER_MOST: Final = 64
_NAME_MOST: Final = 6 * len(TYPE) + 1  # every character escaped


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON object of type ``handoff_request``, or a text that set out to be one.

    Args:
        raw: the text.
        fault: why it is no request, or None.
    """

    raw: str
    fault: RequestRefusal | None = None


class _Want(Enum):
    """The tokens that may come next."""

    FIRST_KEY = "a key or the end of an empty object"
    KEY = "a key"
    COLON = "a colon"
    VALUE = "a value"
    FIRST_VALUE = "a value or the end of an empty array"
    NEXT = "a comma or an end"
    TEXT = "the rest of a string"


class _Step(Enum):
    """The ways in which a candidate goes on."""

    ON = "on"
    WAIT = "wait for more text"
    FAIL = "this is no JSON"
    OVER = "beyond a bound"
    DONE = "the object is complete"


_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_PART = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_WORD = re.compile(r"[-+.0-9A-Za-z]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")


def _past(expression: re.Pattern[str], text: str, start: int, end: int) -> int:
    """The end of the match of an expression that always matches."""
    found = expression.match(text, start, max(start, end))
    return found.end() if found else start


class _Candidate:
    """One attempt to read an object. Positions are those of the held text."""

    __slots__ = ("begun", "claims", "key", "limit", "named", "open", "pos", "start", "want")

    def __init__(self, start: int) -> None:
        self.start = start  # of its brace
        self.pos = start + 1
        self.limit = start + LONGEST
        self.open = "{"
        self.want = _Want.FIRST_KEY
        self.key = False  # whether the string that is being read is a key
        self.begun = start  # where it begins
        self.named = ""  # the last key of the object itself
        self.claims = False  # whether its type is that of a request

    def moved(self, by: int) -> None:
        """Follow the held text, of which so many characters were dropped in front."""
        self.start -= by
        self.pos -= by
        self.limit -= by
        self.begun -= by

    def run(self, text: str) -> _Step:
        """Read on in the held text."""
        step = _Step.ON
        while step is _Step.ON:
            if self.want is not _Want.TEXT:
                self.pos = _past(_SPACE, text, self.pos, self.limit)
            if self.pos >= self.limit:
                return _Step.OVER
            if self.pos >= len(text):
                return _Step.WAIT
            step = self._text(text) if self.want is _Want.TEXT else self._token(text, text[self.pos])
        return step

    def _token(self, text: str, char: str) -> _Step:
        if char == '"' and self.want not in {_Want.COLON, _Want.NEXT}:
            self.key = self.want in {_Want.KEY, _Want.FIRST_KEY}
            self.begun = self.pos
            return self._take(_Want.TEXT)
        if char in "}]":
            return self._close(char)
        if char == ":" and self.want is _Want.COLON:
            return self._take(_Want.VALUE)
        if char == "," and self.want is _Want.NEXT:
            return self._take(_Want.KEY if self.open[-1] == "{" else _Want.VALUE)
        if self.want in {_Want.VALUE, _Want.FIRST_VALUE}:
            return self._value(text, char)
        return _Step.FAIL

    def _take(self, want: _Want) -> _Step:
        self.pos += 1
        self.want = want
        return _Step.ON

    def _close(self, char: str) -> _Step:
        partner = "{" if char == "}" else "["
        empty = _Want.FIRST_KEY if char == "}" else _Want.FIRST_VALUE
        if self.open[-1] != partner or self.want not in {_Want.NEXT, empty}:
            return _Step.FAIL
        self.open = self.open[:-1]
        self._take(_Want.NEXT)
        return _Step.ON if self.open else _Step.DONE

    def _value(self, text: str, char: str) -> _Step:
        if char in "{[":
            if len(self.open) == DEPTH:
                return _Step.OVER
            self.open += char
            return self._take(_Want.FIRST_KEY if char == "{" else _Want.FIRST_VALUE)
        end = _past(_WORD, text, self.pos, self.pos + _NUMBER_MOST + 1)
        if end - self.pos > _NUMBER_MOST:
            return _Step.FAIL
        if end == len(text):
            return _Step.WAIT
        if not _SCALAR.fullmatch(text, self.pos, end):
            return _Step.FAIL
        self.pos = end
        self.want = _Want.NEXT
        return _Step.ON

    def _text(self, text: str) -> _Step:
        self.pos = _past(_PLAIN, text, self.pos, self.limit)
        if self.pos >= self.limit:
            return _Step.OVER
        if self.pos == len(text):
            return _Step.WAIT
        if text[self.pos] == '"':
            self._noted(text)
            return self._take(_Want.COLON if self.key else _Want.NEXT)
        escape = _ESCAPE.match(text, self.pos)
        if escape is None:
            partial = _ESCAPE_PART.fullmatch(text, self.pos)
            return _Step.WAIT if partial else _Step.FAIL
        self.pos = escape.end()
        return _Step.ON

    def _noted(self, text: str) -> None:
        """Remember the keys of the object itself, and whether its type is that of a request."""
        if len(self.open) > 1 or self.pos - self.begun > _NAME_MOST:
            return
        said = json.loads(text[self.begun : self.pos + 1])
        if self.key:
            self.named = said
        elif self.named == "type" and said == TYPE:
            self.claims = True


class Scanner:
    """The state of one scan. ``feed`` and ``end`` give what was found, in the order of the text."""

    __slots__ = ("_at", "_candidate", "_debt", "_held")

    def __init__(self) -> None:
        self._held = ""
        self._at = 0  # everything before this place is settled
        self._candidate: _Candidate | None = None
        self._debt = 0  # characters read more than WORK times the characters that were settled

    def copy(self) -> Scanner:
        """A scan that goes on from here by itself."""
        other = copy(self)
        other._candidate = copy(self._candidate)  # noqa: SLF001 - one of its own
        return other

    def feed(self, text: str) -> tuple[Found, ...]:
        """Go on with more text."""
        self._held += text
        found: list[Found] = []
        while (candidate := self._begin()) is not None:
            step = candidate.run(self._held)
            if step is _Step.WAIT:
                break
            found.extend(self._settle(candidate, step))
        self._shorten()
        return tuple(found)

    def end(self) -> tuple[Found, ...]:
        """The text is over: what is open is cut off, and what stands inside it may be whole."""
        found: list[Found] = []
        while self._candidate is not None:
            found.extend(self._settle(self._candidate, _Step.FAIL))
            found.extend(self.feed(""))
        return tuple(found)

    def _begin(self) -> _Candidate | None:
        """The candidate, begun now if need be. What stands before it is settled."""
        if self._candidate is None:
            start = self._held.find("{", self._at)
            self._pass(start if start >= 0 else len(self._held))
            self._candidate = _Candidate(start) if start >= 0 else None
        return self._candidate

    def _pass(self, place: int) -> None:
        self._debt = max(0, self._debt - WORK * (place - self._at))
        self._at = place

    def _shorten(self) -> None:
        """Drop what is settled: once for each piece of text, since it copies the rest."""
        self._held = self._held[self._at :]
        if self._candidate is not None:
            self._candidate.moved(self._at)
        self._at = 0

    def _settle(self, candidate: _Candidate, step: _Step) -> Iterator[Found]:
        """Be done with a candidate; the search goes on behind it, or behind its brace when it was no JSON."""
        self._candidate = None
        read = candidate.pos - candidate.start
        if step is _Step.FAIL:
            self._debt += read
            step = _Step.OVER if self._debt > WORK * LONGEST else step
        self._pass(candidate.start + 1 if step is _Step.FAIL else candidate.pos)
        if step is _Step.FAIL and not candidate.claims:
            return
        raw = self._held[candidate.start : candidate.pos]
        if step is _Step.DONE:
            yield from _complete(raw, claims=candidate.claims)
        else:
            yield Found(raw, RequestRefusal.OVER_BOUND if step is _Step.OVER else RequestRefusal.INVALID_JSON)


def _complete(raw: str, *, claims: bool) -> Iterator[Found]:
    """The meaning of a whole object: a request, a claim to be one, another document around one, or nothing."""
    found = decode(raw) if TYPE in raw or claims else {}
    if found is None:
        if claims:
            yield Found(raw, RequestRefusal.INVALID_JSON)
    elif found.get("type") == TYPE:
        yield Found(raw)
    elif _holds(found):
        yield Found(raw, RequestRefusal.NESTED_REQUEST)


def _holds(document: object) -> bool:
    """True when an object of type ``handoff_request`` stands anywhere inside."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("type") == TYPE:
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False
