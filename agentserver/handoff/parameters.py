"""The typed parameters of an intent.

A parameter's
text is judged by libxml2 as a whole value, so neither white space around it nor a trailing newline ever
passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.hygiene import slug
from agentserver.hygiene.objections import Objection
from agentserver.hygiene.simple_types import XSD, Lexical
from agentserver.hygiene.xsd import tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lxml import etree

__all__ = ["Parameter", "from_xsd"]


class Type(StrEnum):
    """The types of a parameter's value, in JSON and in Python."""

    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"


_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+\-][0-9]{2}:[0-9]{2})?"
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
NATIVE: Final[Mapping[str, tuple[Type, str]]] = {
    "string": (Type.TEXT, ""),
    "integer": (Type.INTEGER, r"[+\-]?[0-9]{1,18}"),
    "int": (Type.INTEGER, r"[+\-]?[0-9]{1,10}"),
    "decimal": (Type.DECIMAL, r"[+\-]?[0-9]{1,18}(\.[0-9]{1,18})?"),
    "boolean": (Type.BOOLEAN, "true|false"),
    "date": (Type.TEXT, _DAY),
    "time": (Type.TEXT, _CLOCK),
    "dateTime": (Type.TEXT, f"{_DAY}T{_CLOCK}"),
}
"""Types of XSD that a parameter may have, with the shape that a value takes in a steering text."""


class WrittenValue(NamedTuple):
    """A value of any type as XML text: what a guard takes from a payload's element."""

    text: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One typed value of an intent.

    Args:
        name: as in the request and in the template.
        lexical: the form of its text.
        type: what a request may hold for it.
        required: whether a request must have it.
        words: how many words a value may spell when a template interpolates it.
    """

    name: str
    lexical: Lexical
    type: Type = Type.TEXT
    required: bool = True
    words: int = slug.BUDGET

    def text(self, value: object) -> str | None:
        """Return the text of a value of this type; None for another type. The text is still to be judged."""
        if isinstance(value, WrittenValue):
            return value.text
        if self.type is Type.BOOLEAN:
            return ("true" if value else "false") if isinstance(value, bool) else None
        if self.type is Type.INTEGER:
            return str(value) if type(value) is int and abs(value) < _BEYOND else None
        return value if isinstance(value, str) else None


_BEYOND: Final = 10**18


def from_xsd(markup: str) -> tuple[Parameter, ...] | Objection:
    """Return the parameters that a payload's XSD declares: the children and attributes of its one root element.

    Nested and repeated fields are no parameters, since there is no place for them in a sentence.
    """
    schema = tree.read_xsd(markup.encode())
    if isinstance(schema, Objection):
        return schema
    root = schema.tree
    elements = [each for each in root if tree.local(each) == "element"]
    if len(elements) != 1:
        return _object("", "must declare one root element")
    found: list[Parameter] = []
    for field in _iter_fields(root, elements[0]):
        parameter = _make_parameter(root, field)
        if isinstance(parameter, Objection):
            return parameter
        found.append(parameter)
    return tuple(found)


def _object(path: str, detail: str) -> Objection:
    return Objection("parameters", path, detail)


def _find_named(root: etree._Element, reference: str) -> etree._Element | None:
    name = reference.rpartition(":")[2]
    return next((each for each in root if each.get("name") == name and each.tag != tree.tag("element")), None)


def _iter_fields(root: etree._Element, element: etree._Element) -> Iterator[etree._Element]:
    """Yield the element and attribute declarations directly below the root element."""
    kind = element.find(tree.tag("complexType"))
    if kind is None:
        kind = _find_named(root, element.get("type", ""))
    waiting = [] if kind is None else [kind]
    while waiting:
        part = waiting.pop(0)
        for child in part:
            if tree.local(child) in {"element", "attribute"}:
                yield child
            elif tree.local(child) in {"sequence", "all"}:
                waiting.append(child)


def _make_parameter(root: etree._Element, field: etree._Element) -> Parameter | Objection:
    name = field.get("name", "")
    if field.get("maxOccurs", "1") != "1":
        return _object(name, "is repeated; a parameter has one value")
    described = _read_description(root, field)
    if described is None:
        return _object(name, f"must have a simple type: {', '.join(NATIVE)}, or a restriction of one")
    kind, lexical = described
    optional = (
        field.get("minOccurs") == "0" if tree.local(field) == "element" else field.get("use") != "required"
    )
    return Parameter(name, lexical, kind, not optional)


def _read_description(root: etree._Element, field: etree._Element) -> tuple[Type, Lexical] | None:
    """Return the base type and all facets along the derivation of a field's simple type."""
    patterns: list[str] = []
    choices: tuple[str, ...] = ()
    minimum, maximum = 0, None
    step: etree._Element | None = field
    for _ in range(_DERIVED):
        if step is None:
            return None
        base = step.get("type") or step.get("base") or ""
        narrowed = step.find(tree.tag("simpleType"))
        if narrowed is None and base and tree.resolve_qname(step, base)[0] == XSD:
            return _make_lexical(base.rpartition(":")[2], patterns, choices, (minimum, maximum))
        narrowed = _find_named(root, base) if narrowed is None else narrowed
        step = None if narrowed is None else narrowed.find(tree.tag("restriction"))
        if step is not None:
            patterns += _list_alternatives(step)
            choices = choices or tuple(_collect_facets(step, "enumeration"))
            minimum = max(
                [
                    minimum,
                    *map(int, _collect_facets(step, "minLength")),
                    *map(int, _collect_facets(step, "length")),
                ]
            )
            lengths = [
                *map(int, _collect_facets(step, "maxLength")),
                *map(int, _collect_facets(step, "length")),
            ]
            maximum = min([*lengths, *([] if maximum is None else [maximum])], default=None)
    return None


_DERIVED: Final = 16


def _collect_facets(step: etree._Element, name: str) -> list[str]:
    return [facet.get("value", "") for facet in step.findall(tree.tag(name))]


def _list_alternatives(step: etree._Element) -> list[str]:
    """Return the patterns of one step of derivation are alternatives."""
    patterns = _collect_facets(step, "pattern")
    return patterns if len(patterns) < 2 else ["|".join(f"({pattern})" for pattern in patterns)]  # noqa: PLR2004 - one


def _make_lexical(
    base: str, patterns: list[str], choices: tuple[str, ...], lengths: tuple[int, int | None]
) -> tuple[Type, Lexical] | None:
    if base not in NATIVE:
        return None
    kind, shape = NATIVE[base]
    own = (shape,) if shape else ()
    return kind, Lexical((*patterns, *own), choices, *lengths)
