"""A hand-written schema as xmlschema reads it: parts for explanation, the smallest example, assertions."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from lxml import etree

from agentserver.hygiene.simple_types import XSD
from agentserver.payload.corrections import Correction, Part, Slot, TextRule, list_words
from agentserver.payload.fields.facets import find_objection, find_sample_patterns
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.sample import WRONG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEPTH = 16
"""Deepest element of an example."""

_WORDS: Mapping[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "decimal": "decimal number",
    "double": "number",
    "float": "number",
    "date": "date as in 2026-01-31",
    "time": "time as in 09:30:00",
    "dateTime": "date and time as in 2026-01-31T09:30:00Z",
    "base64Binary": "base64",
    "hexBinary": "hexadecimal digits",
    "duration": "duration as in PT1H",
}
_FACETS: Mapping[str, str] = {
    "minInclusive": "from {}",
    "minExclusive": "above {}",
    "maxInclusive": "to {}",
    "maxExclusive": "below {}",
    "length": "of {} characters",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "fractionDigits": "with at most {} fractional digits",
    "totalDigits": "with at most {} digits",
}
_TEXTS = (
    "text",
    "1",
    "0",
    "true",
    "1.50",
    "2026-01-31",
    "2026-01-31T09:30:00Z",
    "09:30:00",
    "data",
    "PT1H",
    "",
)


class Model:
    """One schema without its patterns.

    Args:
        tree: the schema.
        root: the payload's element as ``{namespace}local``.

    Raises PayloadError.
    """

    def __init__(self, tree: etree._Element, root: str) -> None:
        from elementpath import ElementPathError
        from xmlschema import XMLSchema11, XMLSchemaException

        self._gave_up = (XMLSchemaException, ElementPathError, *WRONG)
        bare = deepcopy(tree)
        self._patterns: dict[str, list[str]] = {}
        for each in list(bare.iter(f"{{{XSD}}}pattern")):
            parent = each.getparent()
            assert parent is not None
            mark = parent.get("id") or f"pattern{len(self._patterns)}"
            parent.set("id", mark)
            self._patterns.setdefault(mark, []).append(each.get("value", ""))
            parent.remove(each)
        try:
            self._schema = XMLSchema11(
                etree.tostring(bare, encoding="unicode"), allow="none", defuse="always"
            )
        except XMLSchemaException as error:
            raise PayloadError(f"schema: {error}") from None
        self._root = self._schema.maps.elements.get(root)
        if self._root is None:
            raise PayloadError(f"schema: declares no global element {root}")
        self._parts: dict[int, Part] = {}

    def part(self) -> Part:
        """Return the contents that the root may have."""
        return self._read_part(self._root)

    def _read_part(self, element: Any) -> Part:
        kind = element.type
        known = self._parts.get(id(kind))
        if known is None:
            known = self._parts[id(kind)] = (
                self._read_simple(kind) if kind.is_simple() else self._read_complex(kind)
            )
        return known

    def _read_simple(self, kind: Any) -> Part:
        return Part(leaf=self._read_leaf(kind))

    def _read_complex(self, kind: Any) -> Part:
        attributes = {
            name: (self._read_leaf(each.type), each.use == "required")
            for name, each in kind.attributes.items()
        }
        if kind.has_simple_content():
            return Part(leaf=self._read_leaf(kind.content), attributes=attributes)
        group = kind.content
        elements = list(group.iter_elements())
        slots = {
            each.name: Slot(each.local_name, each.min_occurs, each.max_occurs, partial(self._read_part, each))
            for each in elements
        }
        flat = [id(each) for each in group] == [id(each) for each in elements] and len(slots) == len(elements)
        closed = (
            flat
            and group.occurs == (1, 1)
            and group.model != "choice"
            and not self._schema.substitution_groups
        )
        return Part(None, slots, attributes, ordered=group.model == "sequence", closed=closed or not elements)

    def _read_leaf(self, kind: Any) -> TextRule:
        def accepts(text: str) -> bool:
            try:
                return bool(kind.is_valid(text))
            except self._gave_up:
                return False

        return TextRule(_describe_rule(kind), accepts)

    def smallest(self) -> str:
        """Write a small element that may validate: required parts, the first of each choice."""
        name = self._root.qualified_name
        top = etree.Element(name, nsmap={None: etree.QName(name).namespace})  # type: ignore[dict-item] # as in schema
        self._fill(top, self._root, DEPTH)
        return etree.tostring(top, encoding="unicode")

    def _fill(self, target: etree._Element, element: Any, depth: int) -> None:
        kind = element.type
        if not depth:
            return
        if kind.is_simple() or kind.has_simple_content():
            target.text = self._find_text(kind if kind.is_simple() else kind.content)
        if kind.is_simple():
            return
        for name, attribute in kind.attributes.items():
            if attribute.use == "required":
                target.set(name, self._find_text(attribute.type))
        if not kind.has_simple_content():
            for each in _iter_required(kind.content):
                for _ in range(max(each.min_occurs, 1)):
                    self._fill(etree.SubElement(target, each.name), each, depth - 1)

    def _find_text(self, kind: Any) -> str:
        candidates = [str(value) for value in kind.enumeration or ()]
        patterns = self._patterns.get(_mark(kind), [])
        if len(patterns) == 1 and not find_objection(patterns[0]):
            candidates.append(find_sample_patterns(patterns, kind.min_length or 0, kind.max_length) or "")
        candidates += [value for value in (_read_facet(kind, name) for name in _FACETS) if value]
        return next((text for text in (*candidates, *_TEXTS) if kind.is_valid(text)), "")

    def iter_broken_assertions(self, element: etree._Element, maximum: int) -> Iterator[Correction]:
        """Yield the assertions that do not hold in a document of its own, at most ``maximum``.

        One that cannot be computed does not hold: xmlschema and elementpath raise where a number is too long for
        them.
        """
        try:
            yield from map(_describe_assertion, islice(self._schema.iter_errors(element), maximum))
        except self._gave_up:
            yield Correction(
                etree.QName(element).localname, "holds a value that its assertions cannot be computed with"
            )


def _describe_assertion(error: Any) -> Correction:
    local = "/".join(etree.QName(node).localname for node in _list_path(error.elem))
    test = getattr(error.validator, "elem", None)
    rule = test.get("test") if test is not None else None
    return Correction(local, f"must satisfy {list_words([rule])}" if rule else "breaks a rule of its schema")


def _list_path(node: Any) -> list[etree._Element]:
    return [] if node is None else [*reversed(list(node.iterancestors())), node]


def _iter_required(group: Any) -> Iterator[Any]:
    for each in group:
        if not each.min_occurs:
            continue
        if hasattr(each, "model"):
            yield from _iter_required(each)
        else:
            yield each
        if group.model == "choice":
            return


def _mark(kind: Any) -> str:
    """Return the id that the pattern's own restriction was given."""
    steps = () if kind.elem is None else kind.elem.iter()
    return next((str(step.get("id")) for step in steps if step.get("id")), "")


def _read_facet(kind: Any, name: str) -> str:
    facet = kind.get_facet(f"{{{XSD}}}{name}")
    elem = getattr(facet, "elem", None)
    return str(elem.get("value", "")) if elem is not None else ""


def _describe_rule(kind: Any) -> str:
    """Describe the type."""
    if kind.enumeration:
        return f"one of {list_words([str(value) or chr(34) * 2 for value in kind.enumeration])}"
    primitive = getattr(kind, "primitive_type", None)
    name = getattr(primitive, "local_name", None) or "string"  # a list and a union have none
    whole = name == "decimal" and kind.is_derived(kind.maps.types[f"{{{XSD}}}integer"])
    words = ["integer" if whole else _WORDS.get(name, name)]
    words += [form.format(value) for tag, form in _FACETS.items() if (value := _read_facet(kind, tag))]
    return " ".join(words)
