"""Faults: what to correct in an element that its schema refuses, in the schema's own words.

A document is compared with a tree of parts; field tables give one here, hand-written schemas in binding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from lxml import etree

from agentserver.characters.printing import DOTS, truncate
from agentserver.payload.fields.facets import iter_words
from agentserver.payload.fields.field_table import FieldKind, RecordType, Scalar
from agentserver.payload.fields.lexical import ScalarKind, is_readable
from agentserver.payload.xsd import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.payload.fields.field_table import Field, PayloadType

FAULTS = 8
"""Most faults of one element."""
LENGTH = 300
"""Most characters of a path, and of a rule."""
LISTED = 12
"""Most names or values listed in a rule."""

LOOKS = 2000
"""Most elements and attributes that are looked at for a fault."""
UNEXPLAINED = "does not fit its schema"
"""The rule of a fault that has no place."""

_VALUE = 40
_XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
_WORDS: Mapping[ScalarKind, str] = {
    ScalarKind.STR: "text",
    ScalarKind.INT: "integer",
    ScalarKind.FLOAT: "number",
    ScalarKind.BOOL: "true or false",
    ScalarKind.DECIMAL: "decimal number",
    ScalarKind.DATE: "date as in 2026-01-31",
    ScalarKind.TIME: "time as in 09:30:00",
    ScalarKind.DATETIME: "date and time as in 2026-01-31T09:30:00Z",
    ScalarKind.BYTES: "base64",
}


@dataclass(frozen=True, slots=True)
class Correction:
    """One correction.

    Args:
        path: the schema's names from the root down, as in ``Order/items[2]/sku``; ``@name`` is an attribute.
        rule: what must hold there.
    """

    path: str
    rule: str


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule about text, with its wording and its judge."""

    rule: str
    accepts: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a child element; ``part`` is asked for when a document gets there."""

    name: str
    minimum: int
    maximum: int | None
    part: Callable[[], Part]


@dataclass(frozen=True, slots=True)
class Part:
    """The contents that an element may have.

    Args:
        leaf: the rule of its text; None if only elements are allowed.
        slots: by tag, in the order of the schema.
        attributes: by name, and whether each is required.
        ordered: whether children keep the order of the slots.
        closed: whether slots say everything there is to say about children (no choice, no wildcard).
    """

    leaf: TextRule | None = None
    slots: Mapping[str, Slot] = field(default_factory=dict)
    attributes: Mapping[str, tuple[TextRule, bool]] = field(default_factory=dict)
    ordered: bool = False
    closed: bool = True


def list_faults(name: str, part: Part, element: etree._Element) -> tuple[Correction, ...]:
    """Return the parts of an invalid element to correct: 1 to FAULTS faults, found among its first LOOKS nodes.

    Args:
        name: the root as ``{namespace}local``.
        part: its allowed contents.
        element: the root of the payload.
    """
    local = etree.QName(name).localname
    if element.tag != name:
        return (_make_fault(local, f"the element must be {local} in its own namespace"),)
    search = _Search()
    found = tuple(islice(search.walk(element, part, local), FAULTS))
    if found:
        return found
    return (
        _make_fault(
            local, UNEXPLAINED if search.remaining else f"breaks a rule beyond its first {LOOKS} values"
        ),
    )


def _make_fault(path: str, rule: str) -> Correction:
    return Correction(truncate(path, LENGTH, DOTS), truncate(rule, LENGTH, DOTS))


class _Search:
    """A walk through a document that looks at LOOKS elements and attributes at most.

    Each look may ask libxml2 about a text, and a sender would like to have every one of 20,000 looked at.
    """

    def __init__(self) -> None:
        self.remaining = LOOKS

    def _look(self) -> bool:
        """Check whether there is a look left; takes it."""
        self.remaining = max(0, self.remaining - 1)
        return self.remaining > 0

    def walk(self, element: etree._Element, part: Part, path: str) -> Iterator[Correction]:
        yield from self._iter_attributes(element, part, path)
        if part.leaf is not None:
            yield from _iter_text(element, part.leaf, path)
        else:
            yield from self._iter_content(element, part, path)

    def _iter_attributes(self, element: etree._Element, part: Part, path: str) -> Iterator[Correction]:
        for name in map(str, element.attrib):
            known = part.attributes.get(name)
            if not self._look():
                return
            if known is None:
                if not name.startswith(_XSI):
                    yield _make_fault(path, "has an attribute that is not allowed here")
            elif not known[0].accepts(element.get(name, "")):
                yield _make_fault(f"{path}/@{name}", f"must be {known[0].rule}")
        for name, (leaf, required) in part.attributes.items():
            if required and name not in element.attrib:
                yield _make_fault(path, f"missing attribute {name}: {leaf.rule}")

    def _iter_content(self, element: etree._Element, part: Part, path: str) -> Iterator[Correction]:
        around = (child.tail for child in islice(element, self.remaining))
        if any(text and text.strip() for text in (element.text, *around)):
            yield _make_fault(path, "must hold elements only, no text between them")
        elif not part.slots and part.closed and (element.text or len(element)):
            yield _make_fault(path, "must be empty")
            return
        yield from self._iter_children(element, part, path)
        if part.closed and part.ordered and self.remaining and _is_out_of_order(element, part):
            yield _make_fault(path, f"its elements must come in the order {_join_names(part)}")

    def _iter_children(self, element: etree._Element, part: Part, path: str) -> Iterator[Correction]:
        counts = dict.fromkeys(part.slots, 0)
        for child in element:
            if not self._look():
                return  # what was not looked at cannot be counted
            slot = part.slots.get(str(child.tag))
            if slot is None:
                if part.closed:
                    yield _make_fault(path, _stranger(child, part))
                continue
            counts[str(child.tag)] += 1
            number = f"[{counts[str(child.tag)]}]" if slot.maximum != 1 else ""
            yield from self.walk(child, slot.part(), f"{path}/{slot.name}{number}")
        if part.closed:
            for tag, slot in part.slots.items():
                yield from _check_count(slot, counts[tag], path)


def _iter_text(element: etree._Element, leaf: TextRule, path: str) -> Iterator[Correction]:
    if len(element):
        yield _make_fault(path, f"must be {leaf.rule}, without elements inside")
    elif not leaf.accepts(element.text or ""):
        yield _make_fault(path, f"must be {leaf.rule}")


def _check_count(slot: Slot, count: int, path: str) -> Iterator[Correction]:
    if count < slot.minimum:
        leaf = slot.part().leaf
        many = f", at least {slot.minimum} of them" if slot.minimum > 1 else ""
        yield _make_fault(path, f"missing element {slot.name}{many}" + (f": {leaf.rule}" if leaf else ""))
    if slot.maximum is not None and count > slot.maximum:
        yield _make_fault(path, f"element {slot.name} may occur at most {_format_times(slot.maximum)}")


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _stranger(child: etree._Element, part: Part) -> str:
    """Return the words about a child without a slot: its name is the sender's, so only a known one is repeated."""
    local = etree.QName(child).localname
    for slot in part.slots.values():
        if slot.name == local:
            return f"element {slot.name} must be in the namespace of the payload"
    return f"has an element that is not allowed here; allowed: {_join_names(part)}"


def _is_out_of_order(element: etree._Element, part: Part) -> bool:
    order = {tag: number for number, tag in enumerate(part.slots)}
    places = [order[str(child.tag)] for child in element if str(child.tag) in order]
    return places != sorted(places)


def _join_names(part: Part) -> str:
    return list_words([slot.name for slot in part.slots.values()])


def list_words(words: list[str]) -> str:
    """List words in one bounded line."""
    listed = [truncate(word, _VALUE, DOTS) for word in words[:LISTED]]
    rest = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return ", ".join(listed) + rest


def label(scalar: Scalar) -> str:
    """Describe the type of a scalar: ``integer from 1 to 10``."""
    if scalar.choices:
        forms = [written or '""' for written, _ in scalar.choices]
        return f"one of {list_words(forms)}" if len(forms) > 1 else truncate(forms[0], LENGTH, DOTS)
    return truncate(" ".join([_WORDS[scalar.kind], *iter_words(scalar.kind, scalar.facets)]), LENGTH, DOTS)


def describe_parts(payload: PayloadType) -> Part:
    """Return the contents that the root of a payload class may have."""
    judge, names = schema.leaves(payload)
    parts: dict[str, Part] = {}
    for record in reversed(payload.records):
        parts[record.name] = _record(payload, record, parts, _Judges(payload, judge, names, record))
    return parts[payload.record.name]


@dataclass(frozen=True, slots=True)
class _Judges:
    """The judges of a record's scalars: one element of a schema each."""

    payload: PayloadType
    schema: etree.XMLSchema
    names: Mapping[tuple[str, str], str]
    record: RecordType

    def leaf(self, each: Field) -> TextRule:
        assert isinstance(each.type, Scalar)
        tag, kind = f"{{{self.payload.namespace}}}{self.names[self.record.name, each.name]}", each.type.kind

        def accepts(text: str) -> bool:
            element = etree.Element(tag)
            element.text = text
            try:
                return bool(self.schema.validate(element)) and is_readable(kind, text)
            except etree.LxmlError:  # libxml2 gave up
                return False

        return TextRule(label(each.type), accepts)


def _return_part(part: Part) -> Part:
    return part


def _record(payload: PayloadType, record: RecordType, parts: Mapping[str, Part], judges: _Judges) -> Part:
    slots = {}
    for each in record.list_fields_at(FieldKind.ELEMENT):
        inner = parts[each.type.name] if isinstance(each.type, RecordType) else Part(leaf=judges.leaf(each))
        minimum = 0 if each.optional else max(each.minimum, 1)
        maximum = each.maximum if each.repeated else 1
        slots[f"{{{payload.namespace}}}{each.xml}"] = Slot(
            each.xml, minimum, maximum, partial(_return_part, inner)
        )
    attributes = {
        each.xml: (judges.leaf(each), not each.optional)
        for each in record.list_fields_at(FieldKind.ATTRIBUTE)
    }
    return Part(slots=slots, attributes=attributes, ordered=record.ordered)
