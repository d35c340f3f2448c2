"""A payload's XSD, from its field table.

Content is ``xs:all`` where nothing repeats, so that a model may order fields as it likes (libxml2 then takes
a third longer at four fields, and 0.2 ms for 256); else ``xs:sequence``, as XSD 1.0 has no free order with
repetition. Simple types are narrowed wherever Python's types are narrower than XSD's, so that what the schema
accepts also decodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lxml import etree

from agentserver.hygiene.simple_types import XSD, restrict
from agentserver.payload.fields.facets import fits, iter_xsd_facets
from agentserver.payload.fields.field_table import Count, FieldKind, RecordType, Scalar
from agentserver.payload.fields.lexical import DIGITS, WRITERS, ScalarKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.payload.fields.field_table import Field, PayloadType

WIDE = 500
"""Children beyond which an element is judged as it is parsed."""

NARROW = WIDE * len("<a/>")
"""Characters of markup in which no element has more than ``WIDE`` children: there is no shorter child."""

_ZONE = r"(Z|[+\-][0-9]{2}:[0-9]{2})?"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?" + _ZONE
_SHARED: Mapping[str, tuple[str, str]] = {
    "integer": ("xs:integer", rf"[+\-]?[0-9]{{1,{DIGITS}}}"),
    "decimal": ("xs:decimal", rf"[+\-]?[0-9]{{0,{DIGITS}}}(\.[0-9]{{0,{DIGITS}}})?"),
    "number": ("xs:double", "[^a]*"),  # no NaN: libxml2 lets it pass a lower bound
    "date": ("xs:date", _DAY),
    "time": ("xs:time", _CLOCK),
    "dateTime": ("xs:dateTime", f"{_DAY}T{_CLOCK}"),
    "base64": ("xs:base64Binary", "[A-Za-z0-9+/= ]*"),  # libxml2 skips any other character
}
"""Simple types that are narrower than XSD's own: name, base, pattern."""

_BASES: Mapping[ScalarKind, str] = {
    ScalarKind.STR: "xs:string",
    ScalarKind.INT: "integer",
    ScalarKind.FLOAT: "xs:double",
    ScalarKind.BOOL: "xs:boolean",
    ScalarKind.DECIMAL: "decimal",
    ScalarKind.DATE: "date",
    ScalarKind.TIME: "time",
    ScalarKind.DATETIME: "dateTime",
    ScalarKind.BYTES: "base64",
}
RESERVED = frozenset(_SHARED)
"""Type names that a schema keeps for itself."""


def text(payload: PayloadType, *, documented: bool = False) -> str:
    """Return the schema as text; ``documented`` adds what docstrings say, for files that people read."""
    return etree.tostring(
        _Writer(payload, documented=documented).write_schema(), encoding="unicode", pretty_print=True
    )


def form(kind: ScalarKind) -> str:
    """Return the pattern of a kind's texts without white space around them; empty where XSD's own type says all."""
    return _SHARED.get(_BASES[kind], ("", ""))[1]


def compile_schema(markup: str) -> etree.XMLSchema:
    """Return the schema for validation. Raises etree.XMLSchemaParseError."""
    return etree.XMLSchema(etree.fromstring(markup))


def accepts(schema: etree.XMLSchema, element: etree._Element) -> bool:
    """Check whether a schema accepts an element; libxml2 giving up is a no.

    lxml asks for the path of every error, and a path counts siblings: of a tree with a long list, all of it wrong,
    that is quadratic work. A wide element is judged as it is parsed once more, where errors have no path.

    Args:
        schema: the schema.
        element: the element, which may be part of a larger tree.
    """
    try:
        if not is_wide(element):
            return bool(schema.validate(element))
        parser = etree.XMLParser(schema=schema, resolve_entities=False, no_network=True, huge_tree=True)
        etree.fromstring(etree.tostring(element, with_tail=False), parser)
    except etree.LxmlError:
        return False
    return True


def is_wide(element: etree._Element) -> bool:
    """Check whether any element in it has more than WIDE children."""
    return any(map(WIDE.__lt__, map(len, element.iter())))


def leaves(payload: PayloadType) -> tuple[etree.XMLSchema, Mapping[tuple[str, str], str]]:
    """Return a schema with one element for the text of each scalar field.

    Returns:
        the schema and, by record name and Python field name, the element of the field.
    """
    writer = _Writer(payload, documented=False)
    schema = writer.write_schema()
    names: dict[tuple[str, str], str] = {}
    for record in payload.records:
        for field in record.fields:
            if isinstance(field.type, Scalar):
                name = names[record.name, field.name] = f"{payload.root}.{len(names)}"
                writer.type_of_scalar(_add(schema, "element", name=name), field.type)
    return etree.XMLSchema(etree.fromstring(etree.tostring(schema))), names


def _add(parent: etree._Element, tag: str, **attributes: str) -> etree._Element:
    return etree.SubElement(parent, f"{{{XSD}}}{tag}", attributes)


class _Writer:
    """Builds one schema as a tree."""

    def __init__(self, payload: PayloadType, *, documented: bool) -> None:
        self._payload = payload
        self._documented = documented
        self._used: set[str] = set()

    def write_schema(self) -> etree._Element:
        payload = self._payload
        names: Any = {"xs": XSD, None: payload.namespace}
        root = etree.Element(f"{{{XSD}}}schema", nsmap=names)
        root.set("targetNamespace", payload.namespace)
        root.set("elementFormDefault", "qualified")
        element = _add(root, "element", name=payload.root, type=payload.record.name)
        self._document(element, payload.record)
        for record in payload.records:
            self._record(root, record)
        for name in sorted(self._used):
            base, pattern = _SHARED[name]
            kind = _add(_add(root, "simpleType", name=name), "restriction", base=base)
            _add(kind, "pattern", value=pattern)
        return root

    def _record(self, root: etree._Element, record: RecordType) -> None:
        kind = _add(root, "complexType", name=record.name)
        if record is not self._payload.record:
            self._document(kind, record)
        elements = record.list_fields_at(FieldKind.ELEMENT)
        if elements:
            model = _add(kind, "sequence" if record.ordered else "all")
            for field in elements:
                self._element(model, field)
        for field in record.list_fields_at(FieldKind.ATTRIBUTE):
            self._attribute(kind, field)

    def _element(self, model: etree._Element, field: Field) -> None:
        element = _add(model, "element", name=field.xml)
        if field.optional:
            element.set("minOccurs", "0")
        elif field.minimum > 1:
            element.set("minOccurs", str(field.minimum))
        if field.repeated:
            element.set("maxOccurs", "unbounded" if field.maximum is None else str(field.maximum))
        self._document(element, field)
        if isinstance(field.type, RecordType):
            element.set("type", field.type.name)
        else:
            self.type_of_scalar(element, field.type)

    def _attribute(self, kind: etree._Element, field: Field) -> None:
        assert isinstance(field.type, Scalar)
        attribute = _add(kind, "attribute", name=field.xml)
        if not field.optional:
            attribute.set("use", "required")
        self._document(attribute, field)
        self.type_of_scalar(attribute, field.type)

    def _document(self, parent: etree._Element, of: Field | RecordType) -> None:
        if not self._documented:
            return
        doc = of.doc if isinstance(of, RecordType) else _document_field(of)
        if doc:
            _add(_add(parent, "annotation"), "documentation").text = doc

    def type_of_scalar(self, parent: etree._Element, scalar: Scalar) -> None:
        """Give an element or attribute its simple type, named where nothing narrows it."""
        base = _find_base(scalar)
        if base in _SHARED:
            self._used.add(base)
        steps = [step for step in _iter_steps(scalar) if step]
        if steps:
            restrict(parent, base, steps)
        else:
            parent.set("type", base)


def _find_base(scalar: Scalar) -> str:
    if scalar.kind is ScalarKind.FLOAT and not fits(scalar.facets, math.nan):
        return "number"
    return _BASES[scalar.kind]


def _iter_steps(scalar: Scalar) -> Iterator[list[tuple[str, str]]]:
    if scalar.choices:
        tag = "pattern" if scalar.kind is ScalarKind.BOOL else "enumeration"
        yield [(tag, written) for written in _iter_forms(scalar)]
        return
    yield from iter_xsd_facets(scalar.kind, scalar.facets)


def _iter_forms(scalar: Scalar) -> Iterator[str]:
    for written, _ in scalar.choices:
        yield written
        if scalar.kind is ScalarKind.BOOL:
            yield "1" if written == "true" else "0"


def _document_field(field: Field) -> str:
    """Return the documentation of a field with its default."""
    if field.default is None or field.default.factory or field.count is not Count.ONE:
        return field.doc
    if not isinstance(field.type, Scalar) or field.default.value is None:
        return field.doc
    known = {value: written for written, value in field.type.choices}
    text = known.get(field.default.value, "") if known else WRITERS[field.type.kind](field.default.value)
    return f"{field.doc} Default: {text or 'empty'}.".strip()
