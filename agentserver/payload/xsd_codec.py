"""Codecs for dataclasses that xsdata generated from a hand-written XSD.

libxml2 judges structure, types and patterns; where a schema has ``xs:assert``, xmlschema
judges those, on a copy without patterns, because Python's expressions can take exponential time.

The schema is the operator's own, so bounds on its size are all that keeps its compilation short.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lxml import etree
from xsdata.exceptions import ConverterError, ParserError, SerializerError, XmlContextError
from xsdata.formats.dataclass.context import XmlContext
from xsdata.formats.dataclass.parsers import XmlParser
from xsdata.formats.dataclass.parsers.config import ParserConfig
from xsdata.formats.dataclass.serializers import XmlSerializer
from xsdata.formats.dataclass.serializers.config import SerializerConfig
from xsdata.formats.dataclass.serializers.writers import LxmlEventWriter

from agentserver.hygiene.simple_types import XSD
from agentserver.payload.codec import Outline, claim
from agentserver.payload.corrections import FAULTS, UNEXPLAINED, Correction, Part, list_faults
from agentserver.payload.fields.facets import find_objection
from agentserver.payload.fields.field_table import PayloadError, PayloadType
from agentserver.payload.generate import Undecodable, Unencodable
from agentserver.payload.sample import WRONG
from agentserver.payload.xsd.model import Model
from agentserver.payload.xsd.schema import accepts, is_wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["bind"]

C = TypeVar("C", bound=type)
T = TypeVar("T")

SCHEMA_BYTES = 1 << 18
"""Largest hand-written schema with everything it includes."""
SCHEMA_ELEMENTS = 2000
"""Most elements of a hand-written schema with everything it includes."""
ASSERTED_ELEMENTS = 2000
"""Most elements of a message whose schema has assertions: xmlschema is a hundred times slower."""

LOGGED = 100
"""Objections of libxml2 that are looked at."""

_REFUSED: Mapping[str, str] = {
    "import": "keep one namespace in one schema",
    "redefine": "declare the type itself",
    "override": "declare the type itself",
    "any": "declare the elements that may stand there",
    "anyAttribute": "declare the attributes that may stand there",
    "alternative": "use a choice of elements",
    "openContent": "declare the elements that may stand there",
}
_SLOW_XPATH = re.compile(r"\b(matches|replace|tokenize|doc|collection|unparsed-text)\s*\(")
_FAILURES = (*WRONG, ParserError, SerializerError, ConverterError, XmlContextError)


@dataclass(frozen=True, slots=True)
class Binding:
    """A generated dataclass and its schema; kept on the class as ``__payload__``.

    Args:
        cls: the dataclass.
        schema: the XSD.
        folder: the documents that it includes, by file name.
        example: an instance for the example; None builds the smallest one.
    """

    cls: type
    schema: bytes
    folder: Mapping[str, bytes] = field(default_factory=dict)
    example: Any = None

    def codec(self) -> XsdCodec:
        """Return a new codec. Raises PayloadError."""
        return XsdCodec(self)


def bind(cls: C, schema: str | bytes, *, folder: Mapping[str, bytes] | None = None, example: Any = None) -> C:
    """Make a dataclass that xsdata generated a payload of its hand-written schema.

    Raises PayloadError when class and schema do not fit each other or the schema is refused.
    """
    binding = Binding(cls, schema.encode() if isinstance(schema, str) else schema, folder or {}, example)
    cls.__xml_name__ = root_name(cls)  # type: ignore[attr-defined]
    cls.__payload__ = binding  # type: ignore[attr-defined]
    return cls


def root_name(cls: type) -> str:
    """Return the root element of a generated dataclass as ``{namespace}local``. Raises PayloadError."""
    meta = cls.__dict__.get("Meta")
    namespace = getattr(meta, "namespace", None)
    if not is_dataclass(cls) or not namespace:
        raise PayloadError(
            f"{cls.__qualname__}: has no Meta.namespace; bind the class that xsdata made for a global element"
        )
    name = f"{{{namespace}}}{getattr(meta, 'name', None) or cls.__name__}"
    claim(cls, name)
    return name


def inline_schema(schema: bytes, folder: Mapping[str, bytes]) -> etree._Element:
    """Inline the included documents of a schema. Raises PayloadError."""
    root = _parse_tree(schema)
    seen: set[str] = set()
    while (include := root.find(f"{{{XSD}}}include")) is not None:
        name = include.get("schemaLocation", "")
        root.remove(include)
        if name in seen:
            continue
        seen.add(name)
        if name not in folder:
            raise PayloadError(f"schema: includes {name!r}, which is not a file of the schema's own folder")
        _merge(root, _parse_tree(folder[name]), name)
    for each in root.iter(f"{{{XSD}}}*"):
        _check(each)
    if sum(1 for _ in root.iter()) > SCHEMA_ELEMENTS:
        raise PayloadError(f"schema: has more than {SCHEMA_ELEMENTS} elements")
    return root


def _parse_tree(schema: bytes) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    if len(schema) > SCHEMA_BYTES or b"<!DOCTYPE" in schema:
        raise PayloadError(f"schema: is larger than {SCHEMA_BYTES} bytes or has a document type")
    try:
        root = etree.fromstring(schema, parser)
    except etree.XMLSyntaxError as error:
        raise PayloadError(f"schema: is not well-formed: {error}") from None
    if root.tag != f"{{{XSD}}}schema":
        raise PayloadError("schema: its root is not xs:schema")
    return root


def _merge(root: etree._Element, part: etree._Element, name: str) -> None:
    own, other = root.get("targetNamespace"), part.get("targetNamespace")
    forms = ("elementFormDefault", "attributeFormDefault", "blockDefault", "finalDefault")
    prefixes = all(root.nsmap.get(prefix) == uri for prefix, uri in part.nsmap.items())
    if other not in (own, None) or not prefixes or any(root.get(form) != part.get(form) for form in forms):
        raise PayloadError(
            f"schema: {name!r} differs from the schema that includes it in targetNamespace, prefixes or form "
            "defaults; make them equal"
        )
    for child in list(part):
        root.insert(0, child) if child.tag == f"{{{XSD}}}include" else root.append(child)


def _check(each: etree._Element) -> None:
    tag = etree.QName(each).localname
    if tag in _REFUSED:
        raise PayloadError(f"schema: line {each.sourceline}: xs:{tag} is not supported; {_REFUSED[tag]}")
    if each.get("mixed") in {"true", "1"}:
        raise PayloadError(
            f"schema: line {each.sourceline}: mixed content is not supported; give text an element"
        )
    reason = find_objection(each.get("value", "")) if tag == "pattern" else ""
    if reason:
        raise PayloadError(f"schema: line {each.sourceline}: has a pattern that {reason}")
    if tag in {"assert", "assertion"} and _SLOW_XPATH.search(each.get("test", "")):
        raise PayloadError(
            f"schema: line {each.sourceline}: an assertion may not use regular expressions or documents; "
            "use xs:pattern"
        )


class XsdCodec:
    """The codec of a generated dataclass.

    Raises PayloadError when the schema is refused, or no example validates and decodes.
    """

    def __init__(self, binding: Binding) -> None:
        self.payload = binding.cls
        self.described: PayloadType | None = None
        self.regular = self.assured = False
        self.name = root_name(binding.cls)
        self._source = binding.schema
        self._tree = inline_schema(binding.schema, binding.folder)
        self._judge = judge(self._tree)
        self._model = Model(self._tree, self.name)
        self._asserted = any(True for _ in self._tree.iter(f"{{{XSD}}}assert", f"{{{XSD}}}assertion"))
        context = XmlContext()
        strict = ParserConfig(fail_on_unknown_attributes=True, fail_on_converter_warnings=True)
        self._parser = XmlParser(context=context, config=strict)
        # Reads what the parser reads and calls no constructor: the class is its author's code.
        self._reader = XmlParser(context=context, config=replace(strict, class_factory=_build_unchecked))
        self._serializer = XmlSerializer(
            context=context, config=SerializerConfig(xml_declaration=False), writer=LxmlEventWriter
        )
        self._part: Part = self._model.part()
        self.outline = tuple(_iter_outline(self._part))
        self._example = self._prove(binding.example)

    def encode(self, value: object) -> str:
        """Write the markup of ``value``. xsdata checks no types, so that only validation finds a wrong one."""
        label = self.payload.__qualname__
        if type(value) is not self.payload:
            raise Unencodable(f"payload: must be {label}, not {type(value).__name__}")
        try:
            markup = str(self._serializer.render(value, ns_map={None: etree.QName(self.name).namespace}))
        except _FAILURES:
            raise Unencodable(f"{label}: holds a value that XML or its types cannot carry") from None
        return markup.strip()

    def valid(self, element: etree._Element) -> bool:
        """Check whether the schema, its assertions included, accepts ``element``, and every scalar in it decodes."""
        if not self._accepts(element) or not self._readable(element):
            return False
        return not self._asserted or not self._list_broken_assertions(element)

    def valid_own(self, element: etree._Element, size: int) -> bool:  # noqa: ARG002 - of every codec
        """Check the element like any other, because xsdata does not validate its output."""
        return self.valid(element)

    def _accepts(self, element: etree._Element) -> bool:
        return accepts(self._judge, element)

    def _readable(self, element: etree._Element) -> bool:
        try:
            self._reader.parse(deepcopy(element), self.payload)
        except _FAILURES:
            return False
        return True

    def _list_broken_assertions(self, element: etree._Element) -> list[Correction]:
        """Return the assertions that do not hold; a message too large to ask is refused."""
        if sum(1 for _ in element.iter()) > ASSERTED_ELEMENTS:
            return [
                Correction(
                    etree.QName(self.name).localname, f"must hold at most {ASSERTED_ELEMENTS} elements"
                )
            ]
        return list(self._model.iter_broken_assertions(_detach(element), FAULTS))

    def decode(self, element: etree._Element) -> Any:
        """Return the value of a valid element. Raises Undecodable."""
        try:
            return self._parser.parse(deepcopy(element), self.payload)  # xsdata empties what it reads
        except _FAILURES:
            raise Undecodable(f"{self.payload.__qualname__}: cannot be built from the element") from None

    def faults(self, element: etree._Element) -> tuple[Correction, ...]:
        """Return the parts of ``element`` to correct."""
        found = list_faults(self.name, self._part, element)
        if found[0].rule != UNEXPLAINED:
            return found
        alone = _detach(element)
        others = self._log(alone) or (self._list_broken_assertions(element) if self._asserted else [])
        return tuple(others[:FAULTS]) or found

    def _log(self, alone: etree._Element) -> list[Correction]:
        """Return the objections of libxml2, for what the model has no words.

        Names are the schema's, texts are not.
        """
        if is_wide(alone):
            return []
        try:
            self._judge.validate(alone)
        except etree.LxmlError:
            return []
        log: Any = self._judge.error_log  # the stubs do not know that it is a list
        places = dict.fromkeys((error.path or "", error.type_name) for error in islice(log, LOGGED))
        return [
            Correction(_path(alone, path), _WORDS.get(kind, "breaks a rule of its schema"))
            for path, kind in islice(places, FAULTS)
        ]

    def xsd(self, *, documented: bool = False) -> str:
        """Return the schema's text, as written or without annotations."""
        if documented:
            return self._source.decode()
        bare = deepcopy(self._tree)
        for each in list(bare.iter(f"{{{XSD}}}annotation")):
            parent = each.getparent()
            assert parent is not None
            parent.remove(each)
        return etree.tostring(bare, encoding="unicode")

    def example(self) -> str:
        """Write the markup of the given example, or of the smallest element that validates."""
        return self._example

    def _prove(self, payload: Any) -> str:
        markup = self.encode(payload) if payload is not None else self._model.smallest()
        element = etree.fromstring(markup)
        if self._accepts(element) and not self._readable(element):
            raise PayloadError(
                f"{self.payload.__qualname__}: cannot be read from its example; was it generated from this schema?"
            )
        if not self.valid(element):
            raise PayloadError(
                f"{self.payload.__qualname__}: no example validates; give bind(..., example=...) an instance"
            )
        try:
            self.decode(element)
        except Undecodable as error:
            raise PayloadError(f"{error} of its example; was it generated from this schema?") from None
        return markup


def _build_unchecked(cls: type[T], _: Mapping[str, Any]) -> T:
    return object.__new__(cls)


_WORDS = {"SCHEMAV_CVC_PATTERN_VALID": "must match the pattern of its type"}


def judge(tree: etree._Element) -> etree.XMLSchema:
    """libxml2's schema, without what only XSD 1.1 knows. Raises PayloadError."""
    plain = deepcopy(tree)
    for each in list(plain.iter(f"{{{XSD}}}assert", f"{{{XSD}}}assertion")):
        parent = each.getparent()
        assert parent is not None
        parent.remove(each)
    plain.attrib.pop("xpathDefaultNamespace", "")
    try:
        return etree.XMLSchema(etree.fromstring(etree.tostring(plain)))
    except etree.LxmlError as error:
        raise PayloadError(f"schema: is no XSD 1.0 with assertions: {error}") from None


def _detach(element: etree._Element) -> etree._Element:
    return etree.fromstring(etree.tostring(element, with_tail=False))


def _path(root: etree._Element, path: str) -> str:
    """Return the names down to where libxml2 objects; the root's alone when its path cannot be followed."""
    try:
        prefixes = {prefix: uri for prefix, uri in root.nsmap.items() if prefix}
        found: Any = root.getroottree().xpath(path, namespaces=prefixes)
        node = found[0]
    except (etree.LxmlError, LookupError):  # it may use a prefix that is declared further down, or be empty
        node = root
    names = [etree.QName(node).localname]
    names += [etree.QName(above).localname for above in node.iterancestors()]
    return "/".join(reversed(names))


def _iter_outline(part: Part) -> Iterator[Outline]:
    for name, (leaf, required) in part.attributes.items():
        yield Outline(name, leaf.rule, not required, attribute=True)
    for slot in part.slots.values():
        inner = slot.part().leaf
        yield Outline(slot.name, inner.rule if inner else "element", not slot.minimum, slot.maximum != 1)
