"""Scalars of a payload element: its texts and attributes."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.guards.lineage.reading import names_of
from agentserver.payload.fields.field_table import FieldKind, RecordType, Scalar
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lxml import etree

    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Field


class Place(NamedTuple):
    """One scalar of an element.

    Args:
        node: that holds it.
        attribute: the name of the attribute that it is; None for the text of the node.
        path: of its field in the payload class, with indices: ``items[3].body``.
        shape: names from the root on, without indices, as the schema is counted: ``/Order/items/@/id``.
        kind: its type; None in a payload with a hand-written schema.
    """

    node: etree._Element
    attribute: str | None
    path: str
    shape: str
    kind: Scalar | None = None

    @property
    def text(self) -> str:
        """The scalar as it is written; an element without text holds an empty one."""
        return (self.node.text or "") if self.attribute is None else str(self.node.get(self.attribute, ""))

    def write(self, text: str) -> None:
        """Put another scalar there."""
        if self.attribute is None:
            self.node.text = text
        else:
            self.node.set(self.attribute, text)

    def clear(self) -> None:
        """Leave the field out."""
        above = self.node.getparent()
        if self.attribute is not None:
            del self.node.attrib[self.attribute]
        elif above is not None:
            above.remove(self.node)


def places(codec: Codec, element: etree._Element) -> tuple[Place, ...]:
    """The scalars of a valid element, in the order of the document, attributes before what is inside."""
    start = f"/{local(codec.name)}"
    described = codec.described
    if described is not None:
        return tuple(_recorded(element, described.record, described.namespace, "", start))
    return tuple(_written(element, codec.payload, "", start))


def _recorded(
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
            yield from _recorded(child, field.type, space, f"{path}.", inner)
        else:
            yield Place(child, None, path, inner, field.type)


def _written(element: etree._Element, cls: Any, above: str, shape: str) -> Iterator[Place]:
    """The scalars of an element of a hand-written schema, which the class that was made of it names."""
    names = names_of(cls)
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
        yield from _written(child, inner, f"{dotted}{key}[{number}]", f"{shape}/{name}")
    if not len(element):
        own = names.get("", ("value", None))[0]
        yield Place(element, None, f"{dotted}{own}" if element.attrib or not above else above, shape)


def structure(codec: Codec, names: Names, element: etree._Element) -> float:
    """Bits that the structure of a valid element can tell at most: what is left out, and how often what is repeated.

    ``names`` are counted where the schema is hand-written, of which no field table is known.
    """
    described = codec.described
    if described is not None:
        return _chosen(element, described.record, described.namespace)
    # Each node is followed by one of the elements or ends its parent; each attribute is there or is not.
    return sum(1 for _ in element.iter()) * (2 * log2(names.elements + 1) + names.attributes)


def _chosen(element: etree._Element, record: RecordType, space: str) -> float:
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
            bits += sum(_chosen(child, field.type, space) for child in children)
    return bits


class Names(NamedTuple):
    """The number of elements and of attributes that a schema declares."""

    elements: int
    attributes: int


def fields_of(codec: Codec) -> Iterator[tuple[str, RecordType, Field]]:
    """Each scalar field of a generated payload by its path, with its record; none of a hand-written schema."""
    if codec.described is not None:
        yield from _fields(codec.described.record, "")


def _fields(record: RecordType, above: str) -> Iterator[tuple[str, RecordType, Field]]:
    for field in record.fields:
        if isinstance(field.type, Scalar):
            yield f"{above}{field.name}", record, field
        else:
            yield from _fields(field.type, f"{above}{field.name}.")
