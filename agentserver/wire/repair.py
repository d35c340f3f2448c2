"""Text that a deprecated handler returned, read strictly or repaired as far as a schema makes it certain.

Owns what may be repaired and when a repair is refused. Refuses to touch the wire, routing and anything that
is no payload: an envelope is never read here, no element is made or moved that the text does not name and the
schema does not know, and no character of a payload is dropped.

Well-formed text means what it says and is never repaired, valid or not. Else prose, a code fence and an XML
declaration around the payloads may go, and a root may get its namespace; if that suffices, the payloads are
read as they stand. Else every reading that the field tables allow is tried, with raw ``&`` and ``<``, a missing or
cut end tag. The one that validates is the answer; two are a refusal. Markup never becomes text. Where something was
left unescaped, though, its writer may have meant a tag as text, and a reading in which it is one is a second reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from agentserver.payload.fields.field_table import PayloadType
from agentserver.payload.fields.lexical import escape_attribute
from agentserver.payload.names import local, namespace
from agentserver.wire.canonical import canonical
from agentserver.wire.envelope import Malformed, read_payload
from agentserver.wire.repair_search import (
    GAP,
    MARKUP,
    UNNAMED,
    LiteralSearch,
    Note,
    Repair,
    Search,
    Slice,
    end_of,
    tags,
    vocabulary,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lxml import etree

    from agentserver.wire.envelope import Bounds
    from agentserver.wire.repair_search import Candidate

LIMIT: Final = 256 * 1024
"""Bytes of text that are looked at for repair."""

CANDIDATES: Final = 64
"""Complete readings that are held against the schemas."""

NOTES: Final = 64
"""Repairs of one text; a text that needs more is refused."""

_WRAPPER: Final = "urn:agentserver:reading"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_DECLARATION: Final = re.compile(r"<\?xml[ \t\n][^<>]{0,200}\?>[ \t\n]*\Z")
_FENCE: Final = re.compile(r"(?:\A|\n)```[\w-]*[ \t]*\n[ \t\n]*\Z")
_REFERENCE: Final = r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});"
_BARE: Final = re.compile(rf"<|\]\]>|(?!{_REFERENCE})&")
_ESCAPED: Final = re.compile(rf"{_REFERENCE}|<!\[CDATA\[|<!--|<\?")
# What is markup under any name. A start tag without attributes is not: List<int>.
_TAG_LIKE: Final = re.compile(
    r"</[^\W\d][\w.:-]*[ \t\n]*>|<[^\W\d][\w.:-]*(?:[ \t\n]*/>|[ \t\n]+[\w.:-]+=[\"'])"
)
_ATTRIBUTE_LIKE: Final = re.compile(r"[\"'][ \t\n]+[^\W\d][\w.:-]*[ \t\n]*=[ \t\n]*[\"']")
_BARE_AMPERSAND: Final = re.compile(rf"(?!{_REFERENCE})&")


class RepairRefusal(StrEnum):
    """The reason why text could not be read; the words are meant for its writer."""

    SIZE = "the text is too long to be repaired: write well-formed XML"
    ENCODING = "the text is not UTF-8"
    UNKNOWN_ROOT = "no element that could be delivered was found"
    OUTSIDE = "there is markup outside the payload: write the payload element alone"
    AMBIGUOUS = (
        "the text can be read in more than one way: write & as &amp; and < as &lt;, and close every element"
    )
    CUT = "the text ends within a value"
    INVALID = "the text is not well-formed XML and no repair makes it valid"
    MANY = "the text holds more payloads than there is room for"
    WORK = "the text has too many faults to be repaired: write well-formed XML"


class Known(Protocol):
    """The known facts of a payload: a codec."""

    @property
    def name(self) -> str:
        """The root element as ``{namespace}root``."""
        ...

    @property
    def described(self) -> PayloadType | None:
        """Its field table; without one its text is read strictly or not at all."""
        ...

    def valid(self, element: etree._Element) -> bool:
        """True when its schema accepts the element."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """The payloads of a text, in order, as canonical markup, and what had to be repaired."""

    payloads: tuple[str, ...]
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Text that gives no payload, or not just one reading."""

    reason: RepairRefusal

    @property
    def unknown_root(self) -> bool:
        """True when the fault is that nothing deliverable is named."""
        return self.reason is RepairRefusal.UNKNOWN_ROOT


def read(data: bytes, known: Iterable[Known], bounds: Bounds, most: int) -> Reading | Unreadable:
    """The payload elements that `data` consists of, repaired where only one valid reading exists.

    At most `most` payloads may follow one another with white space between them. Looks at no more than LIMIT bytes,
    CANDIDATES readings and the work that the search allows itself.
    """
    reader = _Reader({codec.name: codec for codec in known}, bounds)
    elements = reader.strictly(data, _BLANK)
    if elements and len(elements) > most:
        return Unreadable(RepairRefusal.MANY)
    if elements and all(element.tag in reader.codecs for element in elements):
        return Reading(_markup(elements))
    if len(data) > LIMIT:
        return Unreadable(RepairRefusal.SIZE)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unreadable(RepairRefusal.ENCODING)
    answer = reader.repaired(text.replace("\r\n", "\n").replace("\r", "\n"))
    return (
        Unreadable(RepairRefusal.MANY)
        if isinstance(answer, Reading) and len(answer.payloads) > most
        else answer
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    codecs: dict[str, Known]
    bounds: Bounds

    def strictly(self, data: bytes, between: re.Pattern[str]) -> tuple[etree._Element, ...] | None:
        """The elements of well-formed text; only `between` may stand beside them."""
        alone = read_payload(data, self.bounds)
        if not isinstance(alone, Malformed):
            return (alone,)
        whole = self._wrapped(data)
        if whole is None:
            return None
        beside = [whole.text, *(element.tail for element in whole)]
        return tuple(whole) if all(between.fullmatch(part or "") for part in beside) else None

    def repaired(self, text: str) -> Reading | Unreadable:
        """The reading of text that is not well-formed, or does not consist of known payloads alone."""
        marks = [tag for tag in tags(text, frozenset(self._roots())) if not tag.closing]
        if not marks:
            return Unreadable(RepairRefusal.UNKNOWN_ROOT)
        start = marks[0].place
        notes = _leading(text[:start])
        if notes is None:
            return Unreadable(RepairRefusal.OUTSIDE)
        answer = self._enclosed(text, start) or self._searched(text, start)
        if isinstance(answer, Unreadable):
            return answer
        repairs = tuple(sorted((*notes, *answer.notes), key=lambda note: note.place))
        return Reading(answer.payloads, repairs) if len(repairs) <= NOTES else Unreadable(RepairRefusal.WORK)

    def _roots(self) -> dict[str, list[Known]]:
        """The codecs by the local names of their roots."""
        roots: dict[str, list[Known]] = {}
        for name, codec in self.codecs.items():
            roots.setdefault(local(name), []).append(codec)
        return roots

    def _wrapped(self, data: bytes, namespace: str = "") -> etree._Element | None:
        space = f' xmlns="{escape_attribute(namespace)}"' if namespace else ""
        wrapper = f'<w:w xmlns:w="{_WRAPPER}"{space}>'.encode()
        bounds = replace(
            self.bounds,
            bytes=self.bounds.bytes + 2 * len(wrapper),
            depth=self.bounds.depth + 1,
            elements=self.bounds.elements + 1,
        )
        whole = read_payload(wrapper + data + b"</w:w>", bounds)
        return None if isinstance(whole, Malformed) else whole

    def _enclosed(self, text: str, start: int) -> Reading | Unreadable | None:
        """Well-formed payloads that need no more than what surrounds them left out, or a namespace."""
        marks = tags(text[start:], frozenset(self._roots()))
        end = start + max((end_of(text[start:], tag) or 0 for tag in marks), default=0)
        rest = text[end:]
        elements = self.strictly(text[start:end].encode(), GAP)
        if not elements or MARKUP.search(rest):
            return None
        named = [self._named(element) for element in elements]
        found = [element for element in named if not isinstance(element, Unreadable)]
        if len(found) < len(named):
            return next(element for element in named if isinstance(element, Unreadable))
        notes = _trailing(rest, end)
        if any(before is not after for before, after in zip(elements, found, strict=True)):
            notes = (Note(Repair.NAMESPACE, start), *notes)
        return Reading(_markup(found), notes)

    def _named(self, element: etree._Element) -> etree._Element | Unreadable:
        """The element as one that is known: itself, or with the namespace that its root lacks."""
        if element.tag in self.codecs:
            return element
        codecs = [] if element.tag in UNNAMED else self._roots().get(str(element.tag), [])
        spaced = [(codec, self._spaced(element, codec)) for codec in codecs]
        valid = [found for codec, found in spaced if len(spaced) == 1 or codec.valid(found)]
        if len(valid) != 1:
            return Unreadable(RepairRefusal.AMBIGUOUS if codecs else RepairRefusal.UNKNOWN_ROOT)
        return valid[0]

    def _spaced(self, element: etree._Element, codec: Known) -> etree._Element:
        whole = self._wrapped(canonical(element), namespace(codec.name))
        assert whole is not None
        return whole[0]

    def _searched(self, text: str, start: int) -> Reading | Unreadable:
        """The one valid reading among all that the field tables allow."""
        answer = self._only(text, start, Search)
        if isinstance(answer, Reading) and any(note.kind is Repair.ESCAPED for note in answer.notes):
            other = self._only(text, start, LiteralSearch)
            return other if isinstance(other, Unreadable) else answer
        return answer

    def _only(self, text: str, start: int, kind: type[Search]) -> Reading | Unreadable:
        """The one valid reading that a search finds. One in which a tag is text counts in a literal search alone."""
        roots = {root: _described(codecs) for root, codecs in self._roots().items()}
        search = kind(text, roots)
        names = vocabulary(roots)
        found: dict[tuple[str, ...], Reading] = {}
        outside = False
        for count, candidate in enumerate(search.candidates(start)):
            swallows = kind is not LiteralSearch and _swallows(candidate, text, names)
            answer = None if swallows else self._judged(candidate, text)
            if isinstance(answer, Unreadable):
                return answer
            if answer is not None and candidate.outside:
                outside = True
            elif answer is not None:
                found.setdefault(answer.payloads, answer)
            if len(found) > 1:
                return Unreadable(RepairRefusal.AMBIGUOUS)
            if count >= CANDIDATES:
                return Unreadable(RepairRefusal.WORK)
        if search.exhausted:
            return Unreadable(RepairRefusal.WORK)
        none = (
            RepairRefusal.OUTSIDE if outside else RepairRefusal.CUT if search.cut else RepairRefusal.INVALID
        )
        return next(iter(found.values()), Unreadable(none))

    def _judged(self, candidate: Candidate, text: str) -> Reading | Unreadable | None:
        """The reading if it is valid, else None. One that has a twin refuses all."""
        elements = []
        for payload, markup in _rendered(candidate, text):
            element = read_payload(markup.encode(), self.bounds)
            if isinstance(element, Malformed) or not self.codecs[payload.qname].valid(element):
                return None
            elements.append(element)
        if candidate.loose:
            return Unreadable(RepairRefusal.AMBIGUOUS)
        contents = [text[piece.start : piece.end] for piece in candidate.pieces if isinstance(piece, Slice)]
        bare = any(map(_BARE.search, contents))
        if bare and any(map(_ESCAPED.search, contents)):
            return Unreadable(RepairRefusal.AMBIGUOUS)  # who escapes one thing and not another meant either
        return Reading(_markup(elements), (*candidate.notes, *_escapes(candidate, text)))


def _swallows(candidate: Candidate, text: str, names: frozenset[str]) -> bool:
    """True when markup has become text: a tag of a known name, an end tag, an attribute."""
    for piece in candidate.pieces:
        if not isinstance(piece, Slice):
            continue
        content = text[piece.start : piece.end]
        if "<" in content and (tags(content, names) or _TAG_LIKE.search(content)):
            return True
        if piece.attribute and _ATTRIBUTE_LIKE.search(content):
            return True
    return False


def _markup(elements: Iterable[etree._Element]) -> tuple[str, ...]:
    return tuple(canonical(element).decode() for element in elements)


def _described(codecs: list[Known]) -> list[PayloadType]:
    return [codec.described for codec in codecs if codec.described is not None]


def _leading(text: str) -> tuple[Note, ...] | None:
    """The text before the first payload as repairs, or None if there is markup in it."""
    declaration = _DECLARATION.search(text)
    notes = [Note(Repair.DECLARATION, declaration.start())] if declaration else []
    prose = text[: declaration.start()] if declaration else text
    if MARKUP.search(prose):
        return None
    fence = _FENCE.search(prose)
    if fence:
        notes.append(Note(Repair.FENCE, fence.start()))
        prose = prose[: fence.start()]
    if not _BLANK.fullmatch(prose):
        notes.append(Note(Repair.PROSE, 0))
    return tuple(notes)


def _trailing(text: str, place: int) -> tuple[Note, ...]:
    gap = GAP.match(text)
    end = gap.end() if gap else 0
    fence = (Note(Repair.FENCE, place),) if "`" in text[:end] else ()
    return fence if end == len(text) else (*fence, Note(Repair.PROSE, place + end))


def _rendered(candidate: Candidate, text: str) -> Iterator[tuple[PayloadType, str]]:
    """Each payload and its markup."""
    payloads: list[tuple[PayloadType, list[str]]] = []
    for piece in candidate.pieces:
        if isinstance(piece, PayloadType):
            payloads.append((piece, []))
        else:
            written = piece if isinstance(piece, str) else _content(text[piece.start : piece.end], piece)
            payloads[-1][1].append(written)
    return ((payload, "".join(parts)) for payload, parts in payloads)


def _content(content: str, piece: Slice) -> str:
    """The characters with what XML cannot hold escaped."""
    if _BARE.search(content):
        content = _BARE_AMPERSAND.sub("&amp;", content).replace("<", "&lt;").replace("]]>", "]]&gt;")
    return content.replace('"', "&quot;") if piece.attribute else content


def _escapes(candidate: Candidate, text: str) -> Iterator[Note]:
    for piece in candidate.pieces:
        if isinstance(piece, Slice) and (bare := _BARE.search(text, piece.start, piece.end)):
            yield Note(Repair.ESCAPED, bare.start())
