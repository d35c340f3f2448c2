"""Scalars of a payload element: its texts and attributes."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.guards.lineage.reading import map_names
from agentserver.payload.fields.field_table import FieldKind, RecordType, Scalar
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lxml import etree

    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Field


class Place(NamedTuple):
    """Scalar of an element.

    Args:
        node: the node that holds it.
        attribute: the name of its attribute; None for the text of the node.
        path: the path of its field in the payload class, with indices: ``items[3].body``.
        shape: the names from the root on, without indices, as in the measured schema: ``/Order/items/@/id``.
        kind: its type; None in a payload with a hand-written schema.
    """

    node: etree._Element
    attribute: str | None
    path: str
    shape: str
    kind: Scalar | None = None

    @property
    def text(self) -> str:
        """The scalar as written; empty for an element without text."""
        return (self.node.text or "") if self.attribute is None else str(self.node.get(self.attribute, ""))

    def write(self, text: str) -> None:
        """Replace the scalar."""
        if self.attribute is None:
            self.node.text = text
        else:
            self.node.set(self.attribute, text)

    def clear(self) -> None:
        """Remove the field."""
        above = self.node.getparent()
        if self.attribute is not None:
            del self.node.attrib[self.attribute]
        elif above is not None:
            above.remove(self.node)


def list_places(codec: Codec, element: etree._Element) -> tuple[Place, ...]:
    """List the scalars of a valid element in document order, attributes before children."""
    start = f"/{local(codec.name)}"
    described = codec.described
    if described is not None:
        return tuple(_list_record_places(element, described.record, described.namespace, "", start))
    return tuple(_list_element_places(element, codec.payload, "", start))


def _list_record_places(
    element: etree._Element, record: RecordType, space: str, above: str, shape: str
) -> Iterator[Place]:
    for field in record.fields_at(FieldKind.ATTRIBUTE):
        if element.get(field.xml) is not None:
            assert isinstance(field.type, Scalar)
            yield Place(element, field.xml, f"{above}{field.name}", f"{shape}/@/{field.xml}", field.type)
    named = {f"{{{space}}}{field.xml}": field for field in record.fields_at(FieldKind.ELEMENT)}
    counts: dict[str, int] = {}
    for child in element:
        field = named[str(child.tag)]
        path, inner = f"{above}{field.name}", f"{shape}/{field.xml}"
        if field.repeated:
            number = counts.get(field.name, 0)
            counts[field.name] = number + 1
            path = f"{path}[{number}]"
        if isinstance(field.type, RecordType):
            yield from _list_record_places(child, field.type, space, f"{path}.", inner)
        else:
            yield Place(child, None, path, inner, field.type)


def _list_element_places(element: etree._Element, cls: Any, above: str, shape: str) -> Iterator[Place]:
    """List the scalars of an element of a hand-written schema, named by its generated class."""
    names = map_names(cls)
    dotted = f"{above}." if above else ""
    for name in element.attrib:
        key, _ = names.get(local(str(name)), (local(str(name)), None))
        yield Place(element, str(name), f"{dotted}{key}", f"{shape}/@/{local(str(name))}")
    counts: dict[str, int] = {}
    for child in element:
        name = local(str(child.tag))
        key, inner = names.get(name, (name, None))
        number = counts.get(key, 0)
        counts[key] = number + 1
        yield from _list_element_places(child, inner, f"{dotted}{key}[{number}]", f"{shape}/{name}")
    if not len(element):
        own = names.get("", ("value", None))[0]
        yield Place(element, None, f"{dotted}{own}" if element.attrib or not above else above, shape)


def structure_bits(codec: Codec, names: NameCounts, element: etree._Element) -> float:
    """Count the bits that the structure of a valid element can reveal: omitted fields and numbers of repetitions.

    ``names`` are counted in a hand-written schema, which has no field table.
    """
    described = codec.described
    if described is not None:
        return _record_bits(element, described.record, described.namespace)
    # Each node is followed by one of the elements or ends its parent; each attribute is there or is not.
    return sum(1 for _ in element.iter()) * (2 * log2(names.elements + 1) + names.attributes)


def _record_bits(element: etree._Element, record: RecordType, space: str) -> float:
    bits = float(sum(field.optional for field in record.fields_at(FieldKind.ATTRIBUTE)))
    found: dict[str, list[etree._Element]] = {}
    for child in element:
        found.setdefault(str(child.tag), []).append(child)
    for field in record.fields_at(FieldKind.ELEMENT):
        children = found.get(f"{{{space}}}{field.xml}", [])
        if field.repeated:
            bits += 2 * log2(len(children) + 1) + 1  # a number that says where it ends
        else:
            bits += field.optional
        if isinstance(field.type, RecordType):
            bits += sum(_record_bits(child, field.type, space) for child in children)
    return bits


class NameCounts(NamedTuple):
    """Number of elements and attributes that a schema declares."""

    elements: int
    attributes: int


def list_fields(codec: Codec) -> Iterator[tuple[str, RecordType, Field]]:
    """List each scalar field of a generated payload by its path, with its record; none of a hand-written schema."""
    if codec.described is not None:
        yield from _list_record_fields(codec.described.record, "")


def _list_record_fields(record: RecordType, above: str) -> Iterator[tuple[str, RecordType, Field]]:
    for field in record.fields:
        if isinstance(field.type, Scalar):
            yield f"{above}{field.name}", record, field
        else:
            yield from _list_record_fields(field.type, f"{above}{field.name}.")
