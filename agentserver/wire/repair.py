"""Reads text that a deprecated handler returned, and repairs it if the schema allows exactly one reading.

Repairs payload text only: it never reads an envelope, never adds or moves an element that the text does not name and
the schema does not know, and drops no character of a payload.

Well-formed text is never repaired, valid or not. Otherwise prose, a code fence and an XML declaration around the
payloads may be removed, and a root may get its missing namespace; if that is enough, the payloads are taken as they
are. Otherwise every reading that the field tables allow is tried, with raw ``&`` and ``<`` and with a missing or
truncated end tag. The only valid reading is the answer; two valid readings are a refusal. Markup never becomes text.
But if the writer left something unescaped, a tag may have been meant as text, and that counts as a second reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from agentserver.payload.fields.field_table import PayloadType
from agentserver.payload.fields.lexical import escape_attribute
from agentserver.payload.names import local, namespace
from agentserver.wire.envelope import Malformed, canonical, read_payload
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
    find_tags,
    vocabulary,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lxml import etree

    from agentserver.wire.envelope import Bounds
    from agentserver.wire.repair_search import Candidate

LIMIT: Final = 256 * 1024
"""Bytes of text considered for repair."""

CANDIDATES: Final = 64
"""Complete readings that are validated."""

NOTES: Final = 64
"""Repairs of one text; a text that needs more is refused."""

_WRAPPER: Final = "urn:agentserver:reading"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_DECLARATION: Final = re.compile(r"<\?xml[ \t\n][^<>]{0,200}\?>[ \t\n]*\Z")
_FENCE: Final = re.compile(r"(?:\A|\n)```[\w-]*[ \t]*\n[ \t\n]*\Z")
_REFERENCE: Final = r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});"
_BARE: Final = re.compile(rf"<|\]\]>|(?!{_REFERENCE})&")
_ESCAPED: Final = re.compile(rf"{_REFERENCE}|<!\[CDATA\[|<!--|<\?")
# Markup whatever its name. A start tag without attributes is not included: List<int>.
_TAG_LIKE: Final = re.compile(
    r"</[^\W\d][\w.:-]*[ \t\n]*>|<[^\W\d][\w.:-]*(?:[ \t\n]*/>|[ \t\n]+[\w.:-]+=[\"'])"
)
_ATTRIBUTE_LIKE: Final = re.compile(r"[\"'][ \t\n]+[^\W\d][\w.:-]*[ \t\n]*=[ \t\n]*[\"']")
_BARE_AMPERSAND: Final = re.compile(rf"(?!{_REFERENCE})&")


class RepairRefusal(StrEnum):
    """Reason why text could not be read, worded for its writer."""

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


class RepairCodec(Protocol):
    """The facts about a payload class that repair needs; codecs provide them."""

    @property
    def name(self) -> str:
        """The root element as ``{namespace}root``."""

    @property
    def described(self) -> PayloadType | None:
        """Its field table; without one the text is read strictly or refused."""

    def valid(self, element: etree._Element) -> bool:
        """Check whether the schema accepts the element."""


@dataclass(frozen=True, slots=True)
class RepairedText:
    """The payloads of a text, in order and as canonical markup, and the repairs made."""

    payloads: tuple[str, ...]
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Text without exactly one reading."""

    reason: RepairRefusal

    @property
    def unknown_root(self) -> bool:
        """True when the text names no known payload."""
        return self.reason is RepairRefusal.UNKNOWN_ROOT


def repair_payloads(
    data: bytes, known: Iterable[RepairCodec], bounds: Bounds, maximum: int
) -> RepairedText | Unreadable:
    """Read the payload elements in `data`, and repair them if exactly one reading is valid.

    At most `maximum` payloads may follow one another, separated by white space. Considers at most LIMIT bytes and
    CANDIDATES readings, within the work limit of the search.
    """
    reader = _Reader({codec.name: codec for codec in known}, bounds)
    elements = reader.read_strictly(data, _BLANK)
    if elements and len(elements) > maximum:
        return Unreadable(RepairRefusal.MANY)
    if elements and all(element.tag in reader.codecs for element in elements):
        return RepairedText(_markup(elements))
    if len(data) > LIMIT:
        return Unreadable(RepairRefusal.SIZE)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unreadable(RepairRefusal.ENCODING)
    answer = reader.repair_text(text.replace("\r\n", "\n").replace("\r", "\n"))
    return (
        Unreadable(RepairRefusal.MANY)
        if isinstance(answer, RepairedText) and len(answer.payloads) > maximum
        else answer
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    codecs: dict[str, RepairCodec]
    bounds: Bounds

    def read_strictly(self, data: bytes, between: re.Pattern[str]) -> tuple[etree._Element, ...] | None:
        """Read well-formed text as elements with only `between` around them."""
        alone = read_payload(data, self.bounds)
        if not isinstance(alone, Malformed):
            return (alone,)
        whole = self._wrap(data)
        if whole is None:
            return None
        gaps = [whole.text, *(element.tail for element in whole)]
        return tuple(whole) if all(between.fullmatch(part or "") for part in gaps) else None

    def repair_text(self, text: str) -> RepairedText | Unreadable:
        """Repair text that is not well-formed, or that has more than known payloads in it."""
        marks = [tag for tag in find_tags(text, frozenset(self._group_roots())) if not tag.closing]
        if not marks:
            return Unreadable(RepairRefusal.UNKNOWN_ROOT)
        start = marks[0].place
        notes = _strip_prefix(text[:start])
        if notes is None:
            return Unreadable(RepairRefusal.OUTSIDE)
        answer = self._read_enclosed(text, start) or self._search(text, start)
        if isinstance(answer, Unreadable):
            return answer
        repairs = tuple(sorted((*notes, *answer.notes), key=lambda note: note.place))
        return (
            RepairedText(answer.payloads, repairs)
            if len(repairs) <= NOTES
            else Unreadable(RepairRefusal.WORK)
        )

    def _group_roots(self) -> dict[str, list[RepairCodec]]:
        """Group the codecs by the local names of their roots."""
        roots: dict[str, list[RepairCodec]] = {}
        for name, codec in self.codecs.items():
            roots.setdefault(local(name), []).append(codec)
        return roots

    def _wrap(self, data: bytes, namespace: str = "") -> etree._Element | None:
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

    def _read_enclosed(self, text: str, start: int) -> RepairedText | Unreadable | None:
        """Read well-formed payloads that need only their surroundings removed or a namespace added."""
        marks = find_tags(text[start:], frozenset(self._group_roots()))
        end = start + max((end_of(text[start:], tag) or 0 for tag in marks), default=0)
        rest = text[end:]
        elements = self.read_strictly(text[start:end].encode(), GAP)
        if not elements or MARKUP.search(rest):
            return None
        named = [self._add_namespace(element) for element in elements]
        found = [element for element in named if not isinstance(element, Unreadable)]
        if len(found) < len(named):
            return next(element for element in named if isinstance(element, Unreadable))
        notes = _strip_suffix(rest, end)
        if any(before is not after for before, after in zip(elements, found, strict=True)):
            notes = (Note(Repair.NAMESPACE, start), *notes)
        return RepairedText(_markup(found), notes)

    def _add_namespace(self, element: etree._Element) -> etree._Element | Unreadable:
        """Return the element itself if it is known, else with the namespace that its root lacks."""
        if element.tag in self.codecs:
            return element
        codecs = [] if element.tag in UNNAMED else self._group_roots().get(str(element.tag), [])
        spaced = [(codec, self._put_in_namespace(element, codec)) for codec in codecs]
        valid = [found for codec, found in spaced if len(spaced) == 1 or codec.valid(found)]
        if len(valid) != 1:
            return Unreadable(RepairRefusal.AMBIGUOUS if codecs else RepairRefusal.UNKNOWN_ROOT)
        return valid[0]

    def _put_in_namespace(self, element: etree._Element, codec: RepairCodec) -> etree._Element:
        whole = self._wrap(canonical(element), namespace(codec.name))
        assert whole is not None
        return whole[0]

    def _search(self, text: str, start: int) -> RepairedText | Unreadable:
        """Find the only valid reading that the field tables allow."""
        answer = self._pick_only(text, start, Search)
        if isinstance(answer, RepairedText) and any(note.kind is Repair.ESCAPED for note in answer.notes):
            other = self._pick_only(text, start, LiteralSearch)
            return other if isinstance(other, Unreadable) else answer
        return answer

    def _pick_only(self, text: str, start: int, kind: type[Search]) -> RepairedText | Unreadable:
        """Find the only valid reading of one search. A tag may count as text only in a literal search."""
        roots = {root: _collect_field_tables(codecs) for root, codecs in self._group_roots().items()}
        search = kind(text, roots)
        names = vocabulary(roots)
        found: dict[tuple[str, ...], RepairedText] = {}
        outside = False
        for count, candidate in enumerate(search.iter_candidates(start)):
            swallows = kind is not LiteralSearch and _swallows(candidate, text, names)
            answer = None if swallows else self._validate(candidate, text)
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

    def _validate(self, candidate: Candidate, text: str) -> RepairedText | Unreadable | None:
        """Return the reading if it is valid, else None. An ambiguous one is a refusal."""
        elements = []
        for payload, markup in _render(candidate, text):
            element = read_payload(markup.encode(), self.bounds)
            if isinstance(element, Malformed) or not self.codecs[payload.qname].valid(element):
                return None
            elements.append(element)
        if candidate.loose:
            return Unreadable(RepairRefusal.AMBIGUOUS)
        contents = [text[piece.start : piece.end] for piece in candidate.pieces if isinstance(piece, Slice)]
        bare = any(map(_BARE.search, contents))
        if bare and any(map(_ESCAPED.search, contents)):
            return Unreadable(
                RepairRefusal.AMBIGUOUS
            )  # a writer who escapes only some of it may have meant either
        return RepairedText(_markup(elements), (*candidate.notes, *_escapes(candidate, text)))


def _swallows(candidate: Candidate, text: str, names: frozenset[str]) -> bool:
    """Check whether markup became text: a tag of a known name, an end tag, an attribute."""
    for piece in candidate.pieces:
        if not isinstance(piece, Slice):
            continue
        content = text[piece.start : piece.end]
        if "<" in content and (find_tags(content, names) or _TAG_LIKE.search(content)):
            return True
        if piece.attribute and _ATTRIBUTE_LIKE.search(content):
            return True
    return False


def _markup(elements: Iterable[etree._Element]) -> tuple[str, ...]:
    return tuple(canonical(element).decode() for element in elements)


def _collect_field_tables(codecs: list[RepairCodec]) -> list[PayloadType]:
    return [codec.described for codec in codecs if codec.described is not None]


def _strip_prefix(text: str) -> tuple[Note, ...] | None:
    """List the repairs of the text before the first payload, or None if there is markup in it."""
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


def _strip_suffix(text: str, place: int) -> tuple[Note, ...]:
    gap = GAP.match(text)
    end = gap.end() if gap else 0
    fence = (Note(Repair.FENCE, place),) if "`" in text[:end] else ()
    return fence if end == len(text) else (*fence, Note(Repair.PROSE, place + end))


def _render(candidate: Candidate, text: str) -> Iterator[tuple[PayloadType, str]]:
    """Write the markup of each payload."""
    payloads: list[tuple[PayloadType, list[str]]] = []
    for piece in candidate.pieces:
        if isinstance(piece, PayloadType):
            payloads.append((piece, []))
        else:
            written = (
                piece if isinstance(piece, str) else _escape_content(text[piece.start : piece.end], piece)
            )
            payloads[-1][1].append(written)
    return ((payload, "".join(parts)) for payload, parts in payloads)


def _escape_content(content: str, piece: Slice) -> str:
    """Escape the characters that XML does not allow there."""
    if _BARE.search(content):
        content = _BARE_AMPERSAND.sub("&amp;", content).replace("<", "&lt;").replace("]]>", "]]&gt;")
    return content.replace('"', "&quot;") if piece.attribute else content


def _escapes(candidate: Candidate, text: str) -> Iterator[Note]:
    for piece in candidate.pieces:
        if isinstance(piece, Slice) and (places := _list_escaped(piece, text)):
            yield Note(Repair.ESCAPED, min(places))


def _list_escaped(piece: Slice, text: str) -> list[int]:
    """List the first bare markup of a content, and the first quote in an attribute that ends with such a quote."""
    bare = _BARE.search(text, piece.start, piece.end)
    quote = text.find(text[piece.start - 1], piece.start, piece.end) if piece.attribute else -1
    return [*([] if bare is None else [bare.start()]), *([] if quote < 0 else [quote])]
