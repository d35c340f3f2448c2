"""Simple types of XSD over text, and libxml2's verdict on values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Lexical"]

XSD: Final = "http://www.w3.org/2001/XMLSchema"


@dataclass(frozen=True, slots=True)
class Lexical:
    """Restrictions on the texts of a simple type.

    Args:
        patterns: XSD expressions that must all match the whole value.
        choices: the allowed texts of an enumeration.
        min_length: minimum characters.
        max_length: maximum characters; None for no bound.
    """

    patterns: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    min_length: int = 0
    max_length: int | None = None

    def steps(self) -> Iterator[list[tuple[str, str]]]:
        """List the facets by derivation step: patterns of one step would be alternatives."""
        first = [("pattern", each) for each in self.patterns[:1]]
        first += [("enumeration", each) for each in self.choices]
        if self.min_length:
            first.append(("minLength", str(self.min_length)))
        if self.max_length is not None:
            first.append(("maxLength", str(self.max_length)))
        yield first
        for pattern in self.patterns[1:]:
            yield [("pattern", pattern)]


def restrict(parent: etree._Element, base: str, steps: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Add a simple type to ``parent``: ``base`` restricted by each step of (facet, value) pairs."""
    *inner, last = steps
    step = etree.SubElement(etree.SubElement(parent, f"{{{XSD}}}simpleType"), f"{{{XSD}}}restriction")
    if inner:
        restrict(step, base, inner)
    else:
        step.set("base", base)
    for facet, value in last:
        etree.SubElement(step, f"{{{XSD}}}{facet}", value=value)


class Judge:
    """Validator that asks libxml2 about texts of named simple types.

    Args:
        types: by name, an XML name without a colon.

    Raises ValueError when libxml2 rejects a pattern.
    """

    def __init__(self, types: Mapping[str, Lexical]) -> None:
        schema = etree.Element(f"{{{XSD}}}schema", nsmap={"xs": XSD})
        for name, lexical in types.items():
            element = etree.SubElement(schema, f"{{{XSD}}}element", name=name)
            restrict(element, "xs:string", list(lexical.steps()))
        try:
            self._schema = etree.XMLSchema(schema)
        except etree.XMLSchemaParseError:
            raise ValueError("a pattern is no regular expression of XSD 1.0") from None

    def accepts(self, name: str, text: str) -> bool:
        """Check a text, including its white space; a text that XML cannot carry is refused."""
        return bool(self.judge(name, text))

    def judge(self, name: str, text: str) -> bool | None:
        """Check a text; None when libxml2 gives up or XML cannot carry the text."""
        element = etree.Element(name)
        try:
            element.text = text
            return bool(self._schema.validate(element))
        except (ValueError, etree.LxmlError):
            return None
