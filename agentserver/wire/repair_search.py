"""Enumerates the ways to read broken payload text as elements of known schemas; ``repair`` picks among them.

The search decides where an element may end, given the field tables. An element contains either elements or text, and
anything that starts like a tag of a known name is one, so a text ends at the next tag: its own end tag, or one that
implies a missing end tag. A missing end tag is considered wherever a tag could not be there otherwise, or could also
belong further out. A literal search finds more: it takes as text everything that may be text, including tags.
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
"""Tags and quotes that one search may visit, counted for each alternative."""

UNNAMED: Final = frozenset({"message", "envelope"})
"""Roots that never get a missing namespace: they could be meant as envelopes."""

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
    """A kind of repair."""

    PROSE = "left out prose around the payloads"
    FENCE = "left out a code fence"
    DECLARATION = "left out an XML declaration"
    NAMESPACE = "added the root's namespace"
    ESCAPED = "escaped characters of a text"
    UNCLOSED = "closed an element that another tag ends"
    CUT = "closed an element at the end of the text"


@dataclass(frozen=True, slots=True)
class Note:
    """One repair and its place, in characters from the start of the text."""

    kind: Repair
    place: int

    def __str__(self) -> str:
        return f"{self.kind} (character {self.place})"


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of the text that is the content of an element, or of an attribute with these quotes."""

    start: int
    end: int
    attribute: bool = False


T = TypeVar("T")
Chain: TypeAlias = "tuple[T, Chain[T]] | None"
Piece: TypeAlias = str | Slice | PayloadType
"""Markup to write unchanged, characters to escape as needed, or the start of a payload."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to read the text.

    Args:
        pieces: a PayloadType starts each payload.
        notes: the necessary repairs, in order.
        outside: whether something that looks like markup remains outside the payloads.
        loose: whether a text with a missing end tag ends in white space, which may or may not belong to it.
    """

    pieces: tuple[Piece, ...]
    notes: tuple[Note, ...]
    outside: bool
    loose: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """A place that starts like a tag of a known name."""

    place: int
    name: str
    closing: bool
    after: int


@dataclass(frozen=True, slots=True)
class _Open:
    """An open element and its ancestors."""

    name: str
    type: RecordType | Scalar
    payload: PayloadType
    outer: _Open | None


@dataclass(frozen=True, slots=True)
class _State:
    """The state of one reading in progress. Pieces and notes are linked lists, newest first, shared between states."""

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
    """Lazy search for the candidates of one text, nearest ends first.

    Args:
        text: with line ends normalised as XML does.
        roots: payload types by the local name of their root.

    ``exhausted`` becomes true when the work limit ended the search; ``cut`` when a reading failed because the text
    ends within a value.
    """

    def __init__(self, text: str, roots: Mapping[str, Sequence[PayloadType]]) -> None:
        self.exhausted = False
        self.cut = False
        self._text = text
        self._roots = roots
        self._work = WORK
        self._tags = find_tags(text, vocabulary(roots))
        self._places = [tag.place for tag in self._tags]
        self._at = {tag.place: tag for tag in self._tags}
        self._end = _find_tail(text)
        self._missing = _count_missing(text, self._tags)

    def iter_candidates(self, start: int) -> Iterator[Candidate]:
        """Yield every way to read from ``start``, the place of a root's tag, to the end."""
        ways = [iter((_State(start),))]
        while ways and not self.exhausted:
            state = next(ways[-1], None)
            if state is None:
                ways.pop()
            elif state.place < 0:
                yield Candidate(
                    _collect_chain(state.pieces), _collect_chain(state.notes), state.outside, state.loose
                )
            elif self._spend():
                ways.append(self._advance(state))

    def _spend(self) -> bool:
        self._work -= 1
        self.exhausted = self._work < 0
        return not self.exhausted

    def _advance(self, state: _State) -> Iterator[_State]:
        if state.open is None:
            return self._read_between(state)
        return (
            self._text_of(state, state.open)
            if isinstance(state.open.type, Scalar)
            else self._children(state, state.open)
        )

    def _read_between(self, state: _State) -> Iterator[_State]:
        """Continue between payloads: another payload, the end, or prose up to the end.

        A negative place means that everything was read.
        """
        place = self._skip(GAP, state.place)
        if "`" in self._text[state.place : place]:
            state = state.note(Repair.FENCE, state.place)
        tag = self._at.get(place)
        if tag and not tag.closing and tag.name in self._roots:
            for payload in self._roots[tag.name]:
                yield from self._open_element(
                    replace(state, place=place).put(payload), tag, payload, payload.record
                )
        elif place == len(self._text):
            yield replace(state, place=-1)
        else:
            outside = MARKUP.search(self._text, place) is not None
            yield replace(state.note(Repair.PROSE, place), place=-1, outside=outside)

    def _children(self, state: _State, element: _Open) -> Iterator[_State]:
        """Continue between the children of a record: a child, its own end tag, or the end of an ancestor."""
        place = self._skip(_BLANKS, state.place)
        current = replace(state, place=place)
        tag = self._at.get(place)
        if tag is None:
            if self._skip(GAP, place) >= self._end and self._is_ending(element, place):
                yield _close(current, element, len(self._text)).note(Repair.CUT, place)
        elif tag.closing and tag.name == element.name:
            end = _END.match(self._text, tag.after)
            if end and not end[1]:
                yield _close(current, element, end.end())
        else:
            inner = {} if tag.closing else _build_elements(element.type)
            if tag.name in inner:
                yield from self._open_element(current, tag, element.payload, inner[tag.name])
            yield from self._imply_end(current, element, tag)

    def _imply_end(self, state: _State, element: _Open, tag: Tag) -> Iterator[_State]:
        """End the element before a tag that implies it, while more end tags are missing."""
        if state.implied < self._missing and self._ends(tag, element):
            ended = replace(_close(state, element, tag.place), implied=state.implied + 1)
            yield ended.note(Repair.UNCLOSED, tag.place)

    def _ends(self, tag: Tag, element: _Open) -> bool:
        """Check whether this tag could belong to an ancestor, so that it would imply a missing end tag."""
        around = element.outer
        while around is not None:
            if tag.name == around.name if tag.closing else tag.name in _build_elements(around.type):
                return True
            around = around.outer
        return not tag.closing and tag.name in self._roots

    def _text_of(self, state: _State, element: _Open) -> Iterator[_State]:
        """Continue within a text: the next tag ends it, either as its end tag or by implying one."""
        index = bisect_left(self._places, state.place)
        if index == len(self._tags):
            yield from self._cut_text(state, element)
            return
        tag = self._tags[index]
        held = state.put(Slice(state.place, tag.place))
        if tag.closing and tag.name == element.name:
            end = _END.match(self._text, tag.after)
            if end and not end[1]:
                yield _close(held, element, end.end())
            return
        blank = self._text[state.place : tag.place][-1:] in _WHITE
        keeps_blanks = isinstance(element.type, Scalar) and element.type.kind is ScalarKind.STR
        yield from self._imply_end(replace(held, loose=held.loose or (blank and keeps_blanks)), element, tag)

    def _cut_text(self, state: _State, element: _Open) -> Iterator[_State]:
        """End a value at the end of the input, but only if its end tag has begun: otherwise more may be missing."""
        if self._end < len(self._text) and self._is_ending(element, state.place):
            ended = _close(state.put(Slice(state.place, self._end)), element, len(self._text))
            yield ended.note(Repair.CUT, self._end)
        else:
            self.cut = True

    def _is_ending(self, element: _Open, place: int) -> bool:
        """Check whether the text ends with the start of this element's end tag, or between tags."""
        begun = self._text[max(self._end, place) :]
        return not begun or (begun.startswith("</") and f"</{element.name}".startswith(begun))

    def _skip(self, blanks: re.Pattern[str], place: int) -> int:
        found = blanks.match(self._text, place)
        return found.end() if found else place

    def _names(self, namespace: str, start: int, end: int) -> bool:
        return self._text[start:end] in {namespace, escape_attribute(namespace)}

    def _open_element(
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
            yield _close(opened, element, place) if empty else replace(opened, open=element)

    def _start_tags(
        self, place: int, kind: RecordType | Scalar, payload: PayloadType, seen: frozenset[str] = frozenset()
    ) -> Iterator[tuple[int, bool, frozenset[str], tuple[Piece, ...]]]:
        """Yield the possible ends of a start tag, whether it is empty, and its attributes. A quote may also be text."""
        end = _END.match(self._text, place)
        if end:
            yield end.end(), bool(end[1]), seen, ()
            return
        found = _ATTRIBUTE.match(self._text, place)
        if not found or found[1] in seen or found[1] not in _collect_attributes(kind):
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
    """Search for a text whose writer may have meant tags as text; finds the candidates of ``Search`` and more."""

    def __init__(self, text: str, roots: Mapping[str, Sequence[PayloadType]]) -> None:
        super().__init__(text, roots)
        self._missing = len(self._tags)  # tags that may be text cannot be counted

    def _text_of(self, state: _State, element: _Open) -> Iterator[_State]:
        """Continue within a text: each end tag may end it; a missing one is considered only before the first."""
        own = False
        for index in range(bisect_left(self._places, state.place), len(self._tags)):
            if not self._spend():
                return
            tag = self._tags[index]
            own_tag = tag.closing and tag.name == element.name
            end = _END.match(self._text, tag.after) if own_tag else None
            own = own or own_tag
            if end and not end[1]:
                yield _close(state.put(Slice(state.place, tag.place)), element, end.end())
            elif not own:
                yield from self._imply_end(state.put(Slice(state.place, tag.place)), element, tag)
        if not own:
            yield from self._cut_text(state, element)


def _find_tail(text: str) -> int:
    """Find the end of the text, before a truncated tag."""
    found = _CUT.search(text)
    return found.start() if found else len(text)


def find_tags(text: str, names: frozenset[str]) -> tuple[Tag, ...]:
    """Find everything in the text that starts like a tag of these names."""
    return tuple(
        Tag(found.start(), found[2], bool(found[1]), found.end())
        for found in _TAG.finditer(text)
        if found[2] in names
    )


def end_of(text: str, tag: Tag) -> int | None:
    """Find the end of an end tag, or of an empty element's tag without attributes; None for other tags."""
    end = _END.match(text, tag.after)
    return end.end() if end and (tag.closing or end[1]) else None


def _count_missing(text: str, found: Sequence[Tag]) -> int:
    """Bound the number of missing end tags. Counts each tag with attributes as open, although it may be empty."""
    opened = sum(not tag.closing and end_of(text, tag) is None for tag in found)
    return opened - sum(tag.closing for tag in found)


def vocabulary(roots: Mapping[str, Sequence[PayloadType]]) -> frozenset[str]:
    """Collect every element name that the payloads know."""
    names = set(roots)
    for payloads in roots.values():
        for payload in payloads:
            for record in payload.records:
                names.update(_build_elements(record))
    return frozenset(names)


def _build_elements(record: RecordType | Scalar) -> dict[str, RecordType | Scalar]:
    fields = record.list_fields_at(FieldKind.ELEMENT) if isinstance(record, RecordType) else ()
    return {field.xml: field.type for field in fields}


def _collect_attributes(kind: RecordType | Scalar) -> set[str]:
    fields = kind.list_fields_at(FieldKind.ATTRIBUTE) if isinstance(kind, RecordType) else ()
    return {"xmlns", *(field.xml for field in fields)}


def _close(state: _State, element: _Open, place: int) -> _State:
    return replace(state.put(f"</{element.name}>"), place=place, open=element.outer)


def _collect_chain(chain: Chain[T]) -> tuple[T, ...]:
    items: list[T] = []
    while chain is not None:
        item, chain = chain
        items.append(item)
    return tuple(reversed(items))
