"""JSON values as elements of a payload, and elements as JSON values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lxml import etree

from agentserver.payload.corrections import FAULTS, label, list_words
from agentserver.payload.fields.field_table import Count, FieldKind, RecordType
from agentserver.payload.json import schema
from agentserver.payload.json.schema import explain_missing_table, members
from agentserver.payload.json.values import JsonFault, JsonRefusal, JsonValue, join_pointer, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Field, Type

ELEMENTS: Final = 20_000
"""Most elements of a payload."""
TEXT: Final = 1 << 20
"""Most characters of a payload's scalars together."""


def convert_element(codec: Codec, value: JsonValue) -> etree._Element | JsonRefusal:
    """Convert a JSON value to an element that the payload's XSD accepts, or list the corrections.

    ``null`` means absent where the class says ``| None``, and nowhere else.
    """
    described = codec.described
    if described is None:
        return explain_missing_table(codec) or refusal()
    namespaces: Any = {None: described.namespace}
    root = etree.Element(codec.name, nsmap=namespaces)
    building = _ElementBuilder(described.namespace)
    faults = tuple(islice(building.record(root, described.record, value, _Place("", described.root)), FAULTS))
    if faults:
        return refusal(*faults)
    if codec.valid(root):
        return root
    return refusal(
        *(JsonFault(building.pointers.get(each.path, ""), each.rule) for each in codec.faults(root))
    )


def convert_value(codec: Codec, element: etree._Element) -> JsonValue | JsonRefusal:
    """Convert an element to its JSON value; a refusal if the payload's XSD does not accept it."""
    described = codec.described
    if described is None:
        return explain_missing_table(codec) or refusal()
    if not codec.valid(element):
        return refusal(*(JsonFault("", f"{each.path}: {each.rule}") for each in codec.faults(element)))
    return _object(described.namespace, described.record, element)


def value_from(codec: Codec, payload: Any) -> JsonValue | JsonRefusal:
    """Return the JSON value of a payload as its class holds it.

    Raises the encoder's errors for an invalid payload.
    """
    return convert_value(codec, etree.fromstring(codec.encode(payload)))


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the value and in the element: its JSON pointer, and its path in a correction."""

    pointer: str
    path: str

    def member(self, name: str, field: Field) -> _Place:
        mark = "@" if field.place is FieldKind.ATTRIBUTE else ""
        return _Place(join_pointer(self.pointer, name), f"{self.path}/{mark}{field.xml}")

    def item(self, at: int, field: Field) -> _Place:
        number = f"[{at + 1}]" if field.maximum != 1 else ""
        return _Place(join_pointer(self.pointer, at), f"{self.path}{number}")

    def make_fault(self, rule: str) -> JsonFault:
        return JsonFault(self.pointer, rule)


class _ElementBuilder:
    """Builder that fills one element within bounds, and finds faults of structure and type."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._elements = ELEMENTS
        self._text = TEXT
        self.pointers: dict[str, str] = {}

    def record(
        self, element: etree._Element, record: RecordType, value: Any, place: _Place
    ) -> Iterator[JsonFault]:
        known = members(record)
        if not isinstance(value, dict):
            yield place.make_fault(f"must be an object with {list_words([*known]) or 'no members'}")
            return
        if any(name not in known for name in value):
            yield place.make_fault(
                f"has a member that is not allowed here; allowed: {list_words([*known]) or 'none'}"
            )
        for name, field in known.items():
            if name in value and not (value[name] is None and field.count is Count.OPTIONAL):
                yield from self._fill_field(element, field, value[name], place.member(name, field))
            elif not field.optional:
                yield place.make_fault(f"missing member {name}: {_describe_wanted(field)}")

    def _fill_field(
        self, parent: etree._Element, field: Field, value: Any, place: _Place
    ) -> Iterator[JsonFault]:
        if not field.repeated:
            yield from self._fill_single(parent, field, value, place)
            return
        if not isinstance(value, list):
            yield place.make_fault(f"must be an array of {_describe_wanted(field)}")
            return
        if not field.minimum <= len(value) <= (len(value) if field.maximum is None else field.maximum):
            maximum = "any number" if field.maximum is None else field.maximum
            yield place.make_fault(f"must have {field.minimum} to {maximum} items")
            return
        for at, item in enumerate(value):
            yield from self._fill_single(parent, field, item, place.item(at, field))
            if self._elements < 0:
                return

    def _fill_single(
        self, parent: etree._Element, field: Field, value: Any, place: _Place
    ) -> Iterator[JsonFault]:
        self.pointers[place.path] = place.pointer
        self._elements -= 1
        if self._elements < 0:
            yield JsonFault("", f"must hold at most {ELEMENTS} values")
        elif isinstance(field.type, RecordType):
            inner = etree.SubElement(parent, f"{{{self._namespace}}}{field.xml}")
            yield from self.record(inner, field.type, value, place)
        else:
            text = schema.find_text(field.type, value)
            self._text -= len(text or "")
            if self._text < 0:
                yield JsonFault("", f"must hold at most {TEXT} characters")
            elif text is None:
                yield place.make_fault(f"must be {label(field.type)}")
            elif field.place is FieldKind.ATTRIBUTE:
                parent.set(field.xml, text)
            else:
                etree.SubElement(parent, f"{{{self._namespace}}}{field.xml}").text = text


def _describe_wanted(field: Field) -> str:
    return (
        f"an object with {list_words([*members(field.type)])}"
        if isinstance(field.type, RecordType)
        else label(field.type)
    )


def _object(namespace: str, record: RecordType, element: etree._Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    inside: dict[str, list[etree._Element]] = {}
    for child in element:
        inside.setdefault(str(child.tag), []).append(child)
    for name, field in members(record).items():
        if field.place is FieldKind.ATTRIBUTE:
            assert not isinstance(field.type, RecordType)
            written = element.get(field.xml)
            if written is not None:
                found[name] = schema.value(field.type, written)
            continue
        items = [
            _read_value(namespace, field.type, each) for each in inside.get(f"{{{namespace}}}{field.xml}", ())
        ]
        if field.repeated:
            found[name] = items
        elif items:
            found[name] = items[0]
    return found


def _read_value(namespace: str, of: Type, element: etree._Element) -> Any:
    return _object(namespace, of, element) if isinstance(of, RecordType) else schema.value(of, element.text)
