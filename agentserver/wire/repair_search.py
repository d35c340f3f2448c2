"""Every way in which broken payload text can be read as elements that a schema knows.

Owns the search: where an element may end, given the field tables. Refuses to judge: it names candidates, and repair
decides among them. An element holds either elements or text, and what starts like a tag of a known name is one, so that
a text ends at the next of them: there its end tag stands, or is missing. A missing end tag is thought of wherever
a tag could not stand otherwise or could stand further out as well. A literal search finds more: it
takes for text all that may be text, tags too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from agentserver.payload.fields.field_table import FieldKind, PayloadType, RecordType, Scalar
from agentserver.payload.fields.lexical import ScalarKind, escape_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WORK: Final = 5_000
"""Tags and quotes that one search may look at, alternatives counted each time."""

UNNAMED: Final = frozenset({"message", "envelope"})
"""Roots that are never given a namespace that the text leaves out: they could be meant as envelopes."""

GAP: Final = re.compile(r"(?:[ \t\n]+|```[A-Za-z0-9_-]*(?=[ \t\n]|\Z))*")
MARKUP: Final = re.compile(r"<[A-Za-z_/!?]")
_NAME: Final = r"[^\W\d][\w.-]*"
_BLANKS: Final = re.compile(r"[ \t\n]*")
_TAG: Final = re.compile(rf"<(/?)({_NAME})(?=[ \t\n/>])")
_END: Final = re.compile(r"[ \t\n]{0,99}(/?)>")
_ATTRIBUTE: Final = re.compile(rf"[ \t\n]{{1,99}}({_NAME})[ \t\n]{{0,99}}=[ \t\n]{{0,99}}([\"'])")
_WHITE: Final = frozenset(" \t\n")
_CUT: Final = re.compile(r"(?:</?[\w.-]*)?\Z")


class Repair(StrEnum):
    """The repairs that made text readable."""

    PROSE = "left out prose around the payloads"
    FENCE = "left out a code fence"
    DECLARATION = "left out an XML declaration"
    NAMESPACE = "added the root's namespace"
    ESCAPED = "escaped characters of a text"
    UNCLOSED = "closed an element that another tag ends"
    CUT = "closed an element at the end of the text"


@dataclass(frozen=True, slots=True)
class Note:
    """One repair and where: characters from the start of the text."""

    kind: Repair
    place: int

    def __str__(self) -> str:
        return f"{self.kind} (character {self.place})"


@dataclass(frozen=True, slots=True)
class Slice:
    """Characters of the text that are the content of an element, or of an attribute with these quotes."""

    start: int
    end: int
    attribute: bool = False


T = TypeVar("T")
Chain: TypeAlias = "tuple[T, Chain[T]] | None"
Piece: TypeAlias = str | Slice | PayloadType
"""Markup to be written as it is, characters to be escaped as they need it, or the start of a payload."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to read the text.

    Args:
        pieces: a PayloadType starts each payload.
        notes: what it takes, in order.
        outside: whether something that looks like markup is left beside the payloads.
        loose: whether a text whose end tag is missing ends in white space, which may be its own or not.
    """

    pieces: tuple[Piece, ...]
    notes: tuple[Note, ...]
    outside: bool
    loose: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """A place that may be a tag: it starts like one of a known name."""

    place: int
    name: str
    closing: bool
    after: int


@dataclass(frozen=True, slots=True)
class _Open:
    """An element that is open, and those around it."""

    name: str
    type: RecordType | Scalar
    payload: PayloadType
    outer: _Open | None


@dataclass(frozen=True, slots=True)
class _State:
    """The progress of one way of reading. Pieces and notes are chains, newest first, which states share."""

    place: int
    open: _Open | None = None
    pieces: Chain[Piece] = None
    notes: Chain[Note] = None
    outside: bool = False
    loose: bool = False
    implied: int = 0

    def put(self, *pieces: Piece) -> _State:
        chain = self.pieces
        for piece in pieces:
            chain = (piece, chain)
        return replace(self, pieces=chain)

    def note(self, kind: Repair, place: int) -> _State:
        return replace(self, notes=(Note(kind, place), self.notes))


class Search:
    """The candidates of one text, nearest ends first, lazily.

    Args:
        text: with line ends as XML has them.
        roots: payload types by the local name of their root.

    ``exhausted`` turns true when the bound on work ended the search; ``cut`` when a reading failed because
    the text ends within a value.
    """

    def __init__(self, text: str, roots: Mapping[str, Sequence[PayloadType]]) -> None:
        self.exhausted = False
        self.cut = False
        self._text = text
        self._roots = roots
        self._work = WORK
        self._tags = tags(text, vocabulary(roots))
        self._places = [tag.place for tag in self._tags]
        self._at = {tag.place: tag for tag in self._tags}
        self._end = _tail(text)
        self._missing = _missing(text, self._tags)

    def candidates(self, start: int) -> Iterator[Candidate]:
        """Every way to read from ``start``, where a root's tag stands, to the end."""
        ways = [iter((_State(start),))]
        while ways and not self.exhausted:
            state = next(ways[-1], None)
            if state is None:
                ways.pop()
            elif state.place < 0:
                yield Candidate(_chained(state.pieces), _chained(state.notes), state.outside, state.loose)
            elif self._spend():
                ways.append(self._onward(state))

    def _spend(self) -> bool:
        self._work -= 1
        self.exhausted = self._work < 0
        return not self.exhausted

    def _onward(self, state: _State) -> Iterator[_State]:
        if state.open is None:
            return self._between(state)
        return (
            self._text_of(state, state.open)
            if isinstance(state.open.type, Scalar)
            else self._children(state, state.open)
        )

    def _between(self, state: _State) -> Iterator[_State]:
        """Beside payloads: another one, the end, or prose up to the end. A negative place says: all read."""
        place = self._past(GAP, state.place)
        if "`" in self._text[state.place : place]:
            state = state.note(Repair.FENCE, state.place)
        tag = self._at.get(place)
        if tag and not tag.closing and tag.name in self._roots:
            for payload in self._roots[tag.name]:
                yield from self._opened(
                    replace(state, place=place).put(payload), tag, payload, payload.record
                )
        elif place == len(self._text):
            yield replace(state, place=-1)
        else:
            outside = MARKUP.search(self._text, place) is not None
            yield replace(state.note(Repair.PROSE, place), place=-1, outside=outside)

    def _children(self, state: _State, element: _Open) -> Iterator[_State]:
        """Between the children of a record: a child, its own end, or the end of something around it."""
        place = self._past(_BLANKS, state.place)
        here = replace(state, place=place)
        tag = self._at.get(place)
        if tag is None:
            if self._past(GAP, place) >= self._end and self._ending(element, place):
                yield _closed(here, element, len(self._text)).note(Repair.CUT, place)
        elif tag.closing and tag.name == element.name:
            end = _END.match(self._text, tag.after)
            if end and not end[1]:
                yield _closed(here, element, end.end())
        else:
            inner = {} if tag.closing else _elements(element.type)
            if tag.name in inner:
                yield from self._opened(here, tag, element.payload, inner[tag.name])
            yield from self._implied(here, element, tag)

    def _implied(self, state: _State, element: _Open, tag: Tag) -> Iterator[_State]:
        """The element ended before a tag that shows it, while more end tags are missing."""
        if state.implied < self._missing and self._ends(tag, element):
            ended = replace(_closed(state, element, tag.place), implied=state.implied + 1)
            yield ended.note(Repair.UNCLOSED, tag.place)

    def _ends(self, tag: Tag, element: _Open) -> bool:
        """True when this tag could stand further out, so that it would show a missing end tag."""
        around = element.outer
        while around is not None:
            if tag.name == around.name if tag.closing else tag.name in _elements(around.type):
                return True
            around = around.outer
        return not tag.closing and tag.name in self._roots

    def _text_of(self, state: _State, element: _Open) -> Iterator[_State]:
        """Within a text: the next tag ends it, being its end tag or showing that it is missing."""
        index = bisect_left(self._places, state.place)
        if index == len(self._tags):
            yield from self._cut_text(state, element)
            return
        tag = self._tags[index]
        held = state.put(Slice(state.place, tag.place))
        if tag.closing and tag.name == element.name:
            end = _END.match(self._text, tag.after)
            if end and not end[1]:
                yield _closed(held, element, end.end())
            return
        blank = self._text[state.place : tag.place][-1:] in _WHITE
        kept = isinstance(element.type, Scalar) and element.type.kind is ScalarKind.STR
        yield from self._implied(replace(held, loose=held.loose or (blank and kept)), element, tag)

    def _cut_text(self, state: _State, element: _Open) -> Iterator[_State]:
        """A value may end with the input only if its end tag had begun: else its rest is unknown."""
        if self._end < len(self._text) and self._ending(element, state.place):
            ended = _closed(state.put(Slice(state.place, self._end)), element, len(self._text))
            yield ended.note(Repair.CUT, self._end)
        else:
            self.cut = True

    def _ending(self, element: _Open, place: int) -> bool:
        """True when the text ends with the beginning of this element's end tag, or between tags."""
        begun = self._text[max(self._end, place) :]
        return not begun or (begun.startswith("</") and f"</{element.name}".startswith(begun))

    def _past(self, blanks: re.Pattern[str], place: int) -> int:
        found = blanks.match(self._text, place)
        return found.end() if found else place

    def _names(self, namespace: str, start: int, end: int) -> bool:
        return self._text[start:end] in {namespace, escape_attribute(namespace)}

    def _opened(
        self, state: _State, tag: Tag, payload: PayloadType, kind: RecordType | Scalar
    ) -> Iterator[_State]:
        root = state.open is None
        for place, empty, attributes, pieces in self._start_tags(tag.after, kind, payload):
            if root and "xmlns" not in attributes and tag.name in UNNAMED:
                continue
            space = f' xmlns="{escape_attribute(payload.namespace)}"' if root else ""
            opened = replace(state.put(f"<{tag.name}{space}", *pieces, ">"), place=place)
            if root and "xmlns" not in attributes:
                opened = opened.note(Repair.NAMESPACE, tag.place)
            element = _Open(tag.name, kind, payload, state.open)
            yield _closed(opened, element, place) if empty else replace(opened, open=element)

    def _start_tags(
        self, place: int, kind: RecordType | Scalar, payload: PayloadType, seen: frozenset[str] = frozenset()
    ) -> Iterator[tuple[int, bool, frozenset[str], tuple[Piece, ...]]]:
        """The ends a start tag may have, whether it is empty, its attributes: a quote may be text, too."""
        end = _END.match(self._text, place)
        if end:
            yield end.end(), bool(end[1]), seen, ()
            return
        found = _ATTRIBUTE.match(self._text, place)
        if not found or found[1] in seen or found[1] not in _attributes(kind):
            return
        name, quote = found.groups()
        close = self._text.find(quote, found.end())
        while close >= 0 and self._spend():
            if name != "xmlns" or self._names(payload.namespace, found.end(), close):
                own: tuple[Piece, ...] = (f' {name}="', Slice(found.end(), close, attribute=True), '"')
                for after, empty, names, pieces in self._start_tags(close + 1, kind, payload, seen | {name}):
                    yield after, empty, names, pieces if name == "xmlns" else (*own, *pieces)
            close = self._text.find(quote, close + 1)


class LiteralSearch(Search):
    """The candidates of a text whose writer may have meant tags as text: those of a search, and more."""

    def __init__(self, text: str, roots: Mapping[str, Sequence[PayloadType]]) -> None:
        super().__init__(text, roots)
        self._missing = len(self._tags)  # of tags that may be text nothing can be counted

    def _text_of(self, state: _State, element: _Open) -> Iterator[_State]:
        """Within a text: each own end tag may end it; a missing one is thought of only before the first."""
        own = False
        for index in range(bisect_left(self._places, state.place), len(self._tags)):
            if not self._spend():
                return
            tag = self._tags[index]
            own_tag = tag.closing and tag.name == element.name
            end = _END.match(self._text, tag.after) if own_tag else None
            own = own or own_tag
            if end and not end[1]:
                yield _closed(state.put(Slice(state.place, tag.place)), element, end.end())
            elif not own:
                yield from self._implied(state.put(Slice(state.place, tag.place)), element, tag)
        if not own:
            yield from self._cut_text(state, element)


def _tail(text: str) -> int:
    """The end of the text, not counting the beginning of a tag that was cut off."""
    found = _CUT.search(text)
    return found.start() if found else len(text)


def tags(text: str, names: frozenset[str]) -> tuple[Tag, ...]:
    """Everything in the text that starts like a tag of these names."""
    return tuple(
        Tag(found.start(), found[2], bool(found[1]), found.end())
        for found in _TAG.finditer(text)
        if found[2] in names
    )


def end_of(text: str, tag: Tag) -> int | None:
    """The end of an end tag or of an empty element's tag without attributes, if it is one."""
    end = _END.match(text, tag.after)
    return end.end() if end and (tag.closing or end[1]) else None


def _missing(text: str, found: Sequence[Tag]) -> int:
    """At most so many end tags are missing: of tags with attributes, which may be empty, it counts each as open."""
    opened = sum(not tag.closing and end_of(text, tag) is None for tag in found)
    return opened - sum(tag.closing for tag in found)


def vocabulary(roots: Mapping[str, Sequence[PayloadType]]) -> frozenset[str]:
    """Every name of an element that the payloads know."""
    names = set(roots)
    for payloads in roots.values():
        for payload in payloads:
            for record in payload.records:
                names.update(_elements(record))
    return frozenset(names)


def _elements(record: RecordType | Scalar) -> dict[str, RecordType | Scalar]:
    fields = record.placed(FieldKind.ELEMENT) if isinstance(record, RecordType) else ()
    return {field.xml: field.type for field in fields}


def _attributes(kind: RecordType | Scalar) -> set[str]:
    fields = kind.placed(FieldKind.ATTRIBUTE) if isinstance(kind, RecordType) else ()
    return {"xmlns", *(field.xml for field in fields)}


def _closed(state: _State, element: _Open, place: int) -> _State:
    return replace(state.put(f"</{element.name}>"), place=place, open=element.outer)


def _chained(chain: Chain[T]) -> tuple[T, ...]:
    items: list[T] = []
    while chain is not None:
        item, chain = chain
        items.append(item)
    return tuple(reversed(items))
