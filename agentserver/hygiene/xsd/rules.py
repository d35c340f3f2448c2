"""Hygiene rules for XSD; rules.py orders them.

Each function yields a place and a sentence for everything that it objects to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from lxml import etree

from agentserver.hygiene import objections, pattern
from agentserver.hygiene.objections import (
    DEPTH,
    EXPANDED,
    LISTED,
    OPTIONAL,
    PROPERTIES,
    REPEATED,
    WRITTEN,
    check_document_size,
    quote,
)
from agentserver.hygiene.pattern import PatternError
from agentserver.hygiene.simple_types import XSD
from agentserver.hygiene.slug import BUDGET, check_readable, count_words
from agentserver.hygiene.xsd import tree as at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.hygiene.objections import Schema

Said: TypeAlias = "Iterator[tuple[str, str]]"

_GROUPS: Final = ("sequence", "choice", "all", "group")
_FACETS: Final = (
    *("pattern", "enumeration", "length", "minLength", "maxLength", "whiteSpace"),
    *("minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "totalDigits", "fractionDigits"),
)
_ELSEWHERE: Final = ("include", "import", "redefine", "override")
_OPENING: Final = ("any", "anyAttribute", "openContent", "defaultOpenContent")
_READ: Final = ("annotation", "documentation", "appinfo")
_KNOWN: Final = frozenset(
    (
        *("schema", "element", "attribute", "simpleType", "complexType", "simpleContent", "complexContent"),
        *("restriction", "extension", "list", "union", "attributeGroup"),
        *(*_GROUPS, *_FACETS, *_ELSEWHERE, *_OPENING, *_READ),
    )
)
_ANY_TYPES: Final = frozenset({"anyType", "anySimpleType", "anyAtomicType"})


def check_size(schema: Schema) -> Said:
    """Limit nesting and size of the document."""
    return check_document_size(schema.tree, iter, "elements")


def _iter_elements(schema: Schema) -> Iterator[etree._Element]:
    """Yield every XSD element outside of annotations."""
    for element in schema.tree.iter(at.tag("*")):
        if not any(at.local(above) in _READ for above in (element, *element.iterancestors())):
            yield element


def check_references(schema: Schema) -> Said:
    """Forbid includes, and require every reference to name a built-in type or a part of this document."""
    known = at.components(schema.tree)
    if len(known) < sum(1 for each in schema.tree if at.is_component(each)):
        yield "", "declares two parts under one name"
    for element in _iter_elements(schema):
        if at.local(element) in _ELSEWHERE:
            yield at.format_path(element), f"xs:{at.local(element)} reaches outside of the file"
            continue
        for value, found in at.resolve_references(element, known):
            if found is None:
                yield at.format_path(element), f"{quote(value)} is no part of this file"


def check_elements(schema: Schema) -> Said:
    """Allow only elements that these rules understand, no foreign attributes, no loose text."""
    for element in _iter_elements(schema):
        if at.local(element) not in _KNOWN:
            yield at.format_path(element), f"xs:{at.local(element)[:32]} is not accepted"
        if (element.text or "").strip() or any((child.tail or "").strip() for child in element):
            yield at.format_path(element), "has text between its parts"
        for name in element.attrib:
            if str(name).startswith(
                "{"
            ):  # such as vc:minVersion, which lets two validators see different schemas
                yield at.format_path(element), f"attribute {quote(name)} is not of XSD"
    for element in schema.tree.iter():
        annotated = any(at.local(above) in _READ for above in (element, *element.iterancestors()))
        if not at.local(element) and not annotated:
            yield "", f"element {quote(element.tag)} is not of XSD"


def check_finite(schema: Schema) -> Said:
    """Forbid recursive types, and limit the size with references expanded."""
    loop = at.find_cycle(schema.tree)
    if loop:
        yield loop[0], f"refers to itself: {quote(' -> '.join(loop))}"
        return
    cost = at.compute_cost(schema.tree)
    if cost.components > DEPTH:
        yield "", f"has {cost.components} types inside one another, more than {DEPTH}"
    if cost.levels > WRITTEN:
        yield "", f"is {cost.levels} levels deep with its references written out, more than {WRITTEN}"
    if cost.elements > EXPANDED:
        yield "", f"holds {cost.elements} elements with its references written out, more than {EXPANDED}"


def check_closed(schema: Schema) -> Said:
    """Require a type for every element and attribute; forbid mixed, open and abstract types and substitution."""
    for element in _iter_elements(schema):
        yield from ((at.format_path(element), text) for text in _open(element))


def _open(element: etree._Element) -> Iterator[str]:
    name = at.local(element)
    if name in _OPENING:
        yield f"xs:{name} accepts anything"
    if element.get("mixed", "false").strip() not in {"false", "0"}:
        yield "mixed content accepts any text"
    for value, _ in at.iter_references(element):
        space, kind = at.resolve_qname(element, value)
        if space == XSD and kind in _ANY_TYPES:
            yield f"xs:{kind} accepts anything"
    if name in {"element", "attribute"} and not _is_typed(element):
        yield "accepts anything: give it a type"
    for opening in ("abstract", "substitutionGroup", "nillable", "processContents"):
        if element.get(opening, "false").strip() not in {"false", "0"}:
            yield f"{opening} opens what the type closes"


def _is_typed(element: etree._Element) -> bool:
    inside = any(at.local(child) in {"simpleType", "complexType"} for child in element)
    return inside or "type" in element.attrib or "ref" in element.attrib


def check_required(schema: Schema) -> Said:
    """Require one root element that requires a child, an attribute or a text."""
    roots = [each for each in schema.tree if at.local(each) == "element"]
    if len(roots) != 1:
        yield "", f"must declare one root element, not {len(roots)}"
        return
    known = at.components(schema.tree)
    kind = _find_type(roots[0], known)
    if kind is not None and not _demands(kind, known):
        yield (
            at.format_path(roots[0]),
            "must require at least one child or attribute, or an empty element would do",
        )


def _find_type(element: etree._Element, known: dict[str, etree._Element]) -> etree._Element | None:
    """Look up the complex type of an element; None if its type is simple."""
    inline = next((child for child in element if at.local(child) == "complexType"), None)
    if inline is not None:
        return inline
    named = next((found for _, found in at.resolve_references(element, known)), None)
    return known[named] if named and named.startswith("complexType") else None


def _demands(part: etree._Element, known: dict[str, etree._Element]) -> bool:
    """Check whether a part of a complex type requires content; a choice does if every alternative does."""
    name = at.local(part)
    if part.get("minOccurs", "1").strip().strip("0") == "" or name in _READ:
        return False
    if name == "attribute":
        return part.get("use") == "required"
    if name in {"element", "simpleContent"}:
        return True
    below = [*part, *(known[found] for _, found in at.resolve_references(part, known) if found)]
    return (all if name == "choice" and below else any)(_demands(each, known) for each in below)


def check_version(schema: Schema) -> Said:
    """Require a target namespace that ends in a version, equal to that of the file."""
    own = schema.tree.get("targetNamespace", "")
    named = objections.parse_namespace(own)
    if named is None:
        yield "", f"targetNamespace must end in :vN or /vN, not {quote(own)}"
    elif schema.reference and named != (schema.reference.slug, schema.reference.version):
        wanted = f"{schema.reference.slug}:v{schema.reference.version}"
        yield "", f"targetNamespace is {quote(own)}, but its file says {wanted}"


def check_occurrences(schema: Schema) -> Said:
    """Limit the number of particles, choices and occurrences, and the nesting of optional groups."""
    known = at.components(schema.tree)
    for element in _iter_elements(schema):
        for attribute in ("minOccurs", "maxOccurs"):
            value = element.get(attribute, "1").strip()
            numeral = value.isascii() and value.isdigit() and len(value) < len(str(REPEATED)) + 1
            if value != "unbounded" and not (numeral and int(value) <= REPEATED):
                yield (
                    at.format_path(element),
                    f"{attribute} must be a whole number up to {REPEATED} or unbounded",
                )
        name = at.local(element)
        if name in _GROUPS and len(element) > PROPERTIES:
            yield at.format_path(element), f"has more than {PROPERTIES} parts"
        if name == "restriction" and sum(at.local(each) == "enumeration" for each in element) > LISTED:
            yield at.format_path(element), f"lists more than {LISTED} values"
        if name == "complexType" and _count_optional(element, known) > OPTIONAL:
            yield (
                at.format_path(element),
                f"nests more than {OPTIONAL} optional groups, which takes too long to compile",
            )


def _count_optional(part: etree._Element, known: dict[str, etree._Element]) -> int:
    """Count nested groups that may be absent or repeated, following group references."""
    name = at.local(part)
    if name == "element":
        return 0
    varies = part.get("minOccurs", "1").strip() != part.get("maxOccurs", "1").strip()
    own = 1 if name in _GROUPS and varies else 0
    named = (
        known[found] for _, found in at.resolve_references(part, known) if found and found.startswith("group")
    )
    return own + max((_count_optional(each, known) for each in (*part, *named)), default=0)


def check_patterns(schema: Schema) -> Said:
    """Require patterns of the portable profile that match in bounded time."""
    for element in _iter_elements(schema):
        if at.local(element) == "pattern":
            try:
                pattern.read_xsd_pattern(element.get("value", ""))
            except PatternError as error:
                yield at.format_path(element), str(error)


def check_wording(schema: Schema) -> Said:
    """Require names and listed values, which survive stripping, not to read as text."""
    for element in _iter_elements(schema):
        name = element.get("name", "")
        if name and not check_readable(name, spaces=False):
            above = element.getparent()
            yield "" if above is None else at.format_path(above), f"name {quote(name)} reads as text"
        listed = [element.get("value", "")] if at.local(element) == "enumeration" else []
        for value in (*listed, element.get("fixed", ""), element.get("default", "")):
            if not check_readable(value, spaces=True):
                yield (
                    at.format_path(element),
                    f"value {quote(value)} reads as text; use at most {BUDGET * 2} words",
                )


_TOKENS: Final = frozenset({"#all", "extension", "restriction", "substitution", "list", "union"})
_FORM: Final = re.compile("qualified|unqualified")
_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.:TZeE+-]{0,40}|-?INF|NaN|-?P[0-9YMDTHS.]{1,40}")
_VALUES: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(("form", "elementFormDefault", "attributeFormDefault"), _FORM),
    "use": re.compile("optional|required|prohibited"),
    "version": re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}"),
    **dict.fromkeys(("mixed", "abstract", "nillable"), re.compile("true|false|0|1")),
}
_DERIVED: Final = ("final", "block", "finalDefault", "blockDefault")
_CHECKED: Final = frozenset(  # by other rules, or as references
    (
        *(
            "name",
            "type",
            "ref",
            "base",
            "itemType",
            "memberTypes",
            "minOccurs",
            "maxOccurs",
            "default",
            "fixed",
        ),
        *("substitutionGroup", "processContents", "value"),
    )
)
_NAMESPACE: Final = re.compile("[A-Za-z0-9:/._~-]{1,128}")
_PREFIX: Final = 16
_OUTSIDE: Final = re.compile(r"\[(?:\\.|[^\]\\]){0,256}+\]|\\.|[^A-Za-z0-9]")
"""Everything in a pattern that is not a literal letter or digit."""


def check_values(schema: Schema) -> Said:
    """Require known attributes with well-formed values; no prefix, namespace, facet or pattern may read as text."""
    own = schema.tree.get("targetNamespace", "")
    if not _NAMESPACE.fullmatch(own) or count_words(own) > BUDGET * 2:
        yield "", f"targetNamespace {quote(own)} reads as text"
    for element in _iter_elements(schema):
        for prefix, space in element.nsmap.items():
            if space not in {XSD, own}:
                yield (
                    at.format_path(element),
                    f"namespace {quote(space)} is neither that of XSD nor the schema's own",
                )
            if prefix and (len(prefix) > _PREFIX or count_words(prefix) > 1):
                yield at.format_path(element), f"prefix {quote(prefix)} reads as text"
        for name, value in element.attrib.items():
            if not _fits(str(name), str(value).strip(), at.local(element)):
                yield at.format_path(element), f"attribute {quote(name)} must not be {quote(value)}"


def _fits(name: str, value: str, element: str) -> bool:
    if name in _VALUES:
        return _VALUES[name].fullmatch(value) is not None
    if name in _DERIVED:
        return _TOKENS.issuperset(value.split())
    if name != "value":
        return name in _CHECKED or (name == "targetNamespace" and element == "schema")
    if element == "pattern":
        return count_words(_OUTSIDE.sub("-", value)) <= BUDGET * 2
    if element == "whiteSpace":
        return value in {"preserve", "replace", "collapse"}
    return element == "enumeration" or _NUMBER.fullmatch(value) is not None


def check_compiles(schema: Schema) -> Said:
    """Require that libxml2 compiles it; checked last, once the size is known to be bounded."""
    try:
        etree.XMLSchema(etree.ElementTree(schema.tree))
    except etree.LxmlError:
        yield "", "is no schema to libxml2"
