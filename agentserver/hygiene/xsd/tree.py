"""XSD documents as trees: the parser for foreign schemas, and the graph of their references."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final

from lxml import etree

from agentserver.hygiene.objections import BYTES, Objection, Reference, Schema, SchemaLanguage
from agentserver.hygiene.simple_types import XSD

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK: Final = f"{{{XSD}}}"

_REFERRING: Final = {
    "type": ("simpleType", "complexType"),
    "base": ("simpleType", "complexType"),
    "itemType": ("simpleType",),
    "memberTypes": ("simpleType",),
}
_NAMED: Final = ("simpleType", "complexType", "element", "attribute", "group", "attributeGroup")


def read_xsd(data: bytes, reference: Reference | None = None) -> Schema | Objection:
    """Parse the schema in ``data`` without comments and processing instructions, or return the objection."""
    if len(data) > BYTES:
        return Objection("document", "", f"has more than {BYTES} bytes")
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.LxmlError:
        return Objection("document", "", "is not well-formed XML in UTF-8")
    if root.getroottree().docinfo.internalDTD is not None:
        return Objection("document", "", "must not have a DOCTYPE")
    return Schema(SchemaLanguage.XSD, root, reference)


def local(element: etree._Element) -> str:
    """Return the local name of an XSD element; empty for another vocabulary."""
    name = str(element.tag)  # for a comment the tag is a function
    return name[len(_MARK) :] if name.startswith(_MARK) else ""


def tag(name: str) -> str:
    """Return the full tag of an XSD element."""
    return _MARK + name


def format_path(element: etree._Element) -> str:
    """Format the path from the root, by names where there are names."""
    steps = [element, *element.iterancestors()]
    return "/".join(_format_step(step) for step in reversed(steps[:-1]))


def _format_step(element: etree._Element) -> str:
    name = element.get("name", element.get("ref", ""))
    return f"{local(element)}[{name[:64]}]" if name else local(element)


def resolve_qname(element: etree._Element, value: str) -> tuple[str | None, str]:
    """Resolve a reference to namespace and local name; None for an undeclared prefix."""
    prefix, _, name = value.rpartition(":")
    if not prefix:
        return element.nsmap.get(None, ""), name
    return element.nsmap.get(prefix), name


def components(root: etree._Element) -> dict[str, etree._Element]:
    """Index the named parts of a schema, as ``complexType order`` and the like."""
    return {f"{local(each)} {each.get('name')}": each for each in root if is_component(each)}


def is_component(element: etree._Element) -> bool:
    """Check whether a top-level element declares something that can be referred to."""
    return local(element) in _NAMED


def iter_references(element: etree._Element) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the references of an element: the text, and the kinds of component that it may name."""
    for attribute, kinds in _REFERRING.items():
        for value in element.get(attribute, "").split():
            yield value, kinds
    if element.get("ref"):
        yield element.get("ref", ""), (local(element),)


def resolve_references(
    element: etree._Element, known: dict[str, etree._Element]
) -> Iterator[tuple[str, str | None]]:
    """Yield each reference to something other than a built-in type, with the component that it names."""
    own = element.getroottree().getroot().get("targetNamespace", "")
    for value, kinds in iter_references(element):
        space, name = resolve_qname(element, value)
        if space == XSD:
            continue
        found = next((f"{kind} {name}" for kind in kinds if f"{kind} {name}" in known), None)
        yield value, found if space == own else None


def order(root: etree._Element) -> list[tuple[str, tuple[str, ...]]]:
    """List every component with those it needs, dependencies first. Raises graphlib.CycleError."""
    known = components(root)
    graph = {
        name: tuple(
            found
            for part in each.iter(tag("*"))
            for _, found in resolve_references(part, known)
            if found is not None
        )
        for name, each in known.items()
    }
    return [(name, graph[name]) for name in TopologicalSorter(graph).static_order()]


def find_cycle(root: etree._Element) -> tuple[str, ...]:
    """Find the components that contain themselves by reference; empty if there are no such components."""
    try:
        order(root)
    except CycleError as error:
        return tuple(error.args[1])
    return ()


@dataclass(frozen=True, slots=True)
class Cost:
    """Size of a schema with references expanded.

    Args:
        elements: of all components together.
        components: nested.
        levels: of elements.
    """

    elements: int
    components: int
    levels: int


def compute_cost(root: etree._Element) -> Cost:
    """Compute size and depth of a schema without recursion. Raises graphlib.CycleError."""
    known = components(root)
    costs: dict[str, Cost] = {}
    for name, needs in order(root):
        inner = [costs[each] for each in needs]
        costs[name] = Cost(
            sum(1 for _ in known[name].iter()) + sum(each.elements for each in inner),
            1 + max((each.components for each in inner), default=0),
            _compute_height(known[name]) + max((each.levels for each in inner), default=0),
        )
    return Cost(
        sum(each.elements for each in costs.values()),
        max((each.components for each in costs.values()), default=0),
        max((each.levels for each in costs.values()), default=0),
    )


def _compute_height(element: etree._Element) -> int:
    return 1 + max((_compute_height(child) for child in element), default=0)
