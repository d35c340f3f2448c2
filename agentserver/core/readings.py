"""Every way in which broken payload text can be read as elements that a schema knows.

Owns the search: which ``<`` may be a tag and where an element may end, given the field tables. Refuses to
judge: it names candidates, and repair decides among them. An element holds either elements or text, so only
known tags can stand between elements, and within a text everything may be text, an end tag too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from agentserver.core.payload.lexical import escape_attribute
from agentserver.core.payload.shape import PayloadType, Place, Record, Scalar

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
_CUT: Final = re.compile(r"(?:</?[\w.-]*)?\Z")


class Repair(StrEnum):
    """What was done to make text readable."""

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
    """

    pieces: tuple[Piece, ...]
    notes: tuple[Note, ...]
    outside: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """What may be a tag: it starts like one of a known name."""

    place: int
    name: str
    closing: bool
    after: int


@dataclass(frozen=True, slots=True)
class _Open:
    """An element that is open, and those around it."""

    name: str
    type: Record | Scalar
    payload: PayloadType
    outer: _Open | None


@dataclass(frozen=True, slots=True)
class _State:
    """How far one way of reading has come. Pieces and notes are chains, newest first, which states share."""

    place: int
    open: _Open | None = None
    pieces: Chain[Piece] = None
    notes: Chain[Note] = None
    outside: bool = False

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
        self._tags = tags(text, _vocabulary(roots))
        self._places = [tag.place for tag in self._tags]
        self._at = {tag.place: tag for tag in self._tags}
        self._end = _tail(text)

    def candidates(self, start: int) -> Iterator[Candidate]:
        """Every way to read from ``start``, where a root's tag stands, to the end."""
        ways = [iter((_State(start),))]
        while ways and not self.exhausted:
            state = next(ways[-1], None)
            if state is None:
                ways.pop()
            elif state.place < 0:
                yield Candidate(_chained(state.pieces), _chained(state.notes), state.outside)
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
        elif not tag.closing and tag.name in (inner := _elements(element.type)):
            yield from self._opened(here, tag, element.payload, inner[tag.name])
        elif _ends(tag, element):
            yield _closed(here, element, place).note(Repair.UNCLOSED, place)

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
            elif not own and _ends(tag, element):
                ended = _closed(state.put(Slice(state.place, tag.place)), element, tag.place)
                yield ended.note(Repair.UNCLOSED, tag.place)
        if not own:
            yield from self._cut_text(state, element)

    def _cut_text(self, state: _State, element: _Open) -> Iterator[_State]:
        """A value may end with the input only if its end tag had begun: else nobody knows its rest."""
        if self._end < len(self._text) and self._ending(element, state.place):
            ended = _closed(state.put(Slice(state.place, self._end)), element, len(self._text))
            yield ended.note(Repair.CUT, self._end)
        else:
            self.cut = True

    def _ending(self, element: _Open, place: int) -> bool:
        """Whether the text ends with the beginning of this element's end tag, or between tags."""
        begun = self._text[max(self._end, place) :]
        return not begun or (begun.startswith("</") and f"</{element.name}".startswith(begun))

    def _past(self, blanks: re.Pattern[str], place: int) -> int:
        found = blanks.match(self._text, place)
        return found.end() if found else place

    def _names(self, namespace: str, start: int, end: int) -> bool:
        return self._text[start:end] in {namespace, escape_attribute(namespace)}

    def _opened(
        self, state: _State, tag: Tag, payload: PayloadType, kind: Record | Scalar
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
        self, place: int, kind: Record | Scalar, payload: PayloadType, seen: frozenset[str] = frozenset()
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


def _tail(text: str) -> int:
    """Where the text ends, not counting the beginning of a tag that was cut off."""
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
    """Where an end tag or an empty element's tag without attributes ends, if it is one."""
    end = _END.match(text, tag.after)
    return end.end() if end and (tag.closing or end[1]) else None


def _vocabulary(roots: Mapping[str, Sequence[PayloadType]]) -> frozenset[str]:
    names = set(roots)
    for payloads in roots.values():
        for payload in payloads:
            for record in payload.records:
                names.update(_elements(record))
    return frozenset(names)


def _elements(record: Record | Scalar) -> dict[str, Record | Scalar]:
    fields = record.placed(Place.ELEMENT) if isinstance(record, Record) else ()
    return {field.xml: field.type for field in fields}


def _attributes(kind: Record | Scalar) -> set[str]:
    fields = kind.placed(Place.ATTRIBUTE) if isinstance(kind, Record) else ()
    return {"xmlns", *(field.xml for field in fields)}


def _ends(tag: Tag, element: _Open) -> bool:
    """Whether this tag cannot stand within the element, so that it would show a missing end tag."""
    if not tag.closing:
        return element.outer is not None and tag.name in _elements(element.outer.type)
    around = element.outer
    while around is not None and around.name != tag.name:
        around = around.outer
    return around is not None


def _closed(state: _State, element: _Open, place: int) -> _State:
    return replace(state.put(f"</{element.name}>"), place=place, open=element.outer)


def _chained(chain: Chain[T]) -> tuple[T, ...]:
    items: list[T] = []
    while chain is not None:
        item, chain = chain
        items.append(item)
    return tuple(reversed(items))
