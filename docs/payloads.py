"""Writes docs/payloads.md: what a payload's annotations become in XSD, from the codec itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lxml import etree

from agentserver.payload.codec import Codecs

PAGE = Path(__file__).with_name("payloads.md")

HEAD = """\
# Payload types and facets

A payload is a dataclass under `@xmlify`; [the contract](contract.md#payload-classes) says how to declare one. This page
is made from the codec (`./run generate`): each annotation with the XSD that it becomes. `agentserver schemas`
writes the XSD and an example of each payload of an organism; a message that its XSD refuses reaches no handler. A class
with an annotation that XSD cannot state is refused where it is declared, with the field and what would work.

Lengths count characters of text, octets of `bytes` and entries of a list. A pattern matches all of the value.
`Annotated` takes several facets; the tightest holds.
"""

XS = "{http://www.w3.org/2001/XMLSchema}"
FIELDS = ("x", "Full-Name")
OWN = """\
They narrow those of XSD to what Python reads alike: no number of more than a thousand digits, no year of five.\
"""

PREPARED = """\
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Interval, Le, Len, MaxLen, MultipleOf

from agentserver import Attribute, Element, Pattern, xmlify

class Unit(Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"

@dataclass(frozen=True)
class Line:
    item: str
    count: int
"""

TABLES = {
    "Types": [
        "str", "int", "float", "bool", "Decimal", "date", "time", "datetime", "bytes", "Unit", 'Literal["low", "high"]',
        "Line", "str | None = None", "int = 3", "tuple[str, ...]", "list[Line]",
    ],
    "Facets": [
        "Annotated[str, Len(1, 80)]", "Annotated[str, MaxLen(80)]", 'Annotated[str, Pattern("[A-Z]{2}-[0-9]+")]',
        "Annotated[int, Ge(1), Le(10)]", "Annotated[float, Gt(0)]", "Annotated[int, Interval(ge=0, lt=100)]",
        "Annotated[int, MultipleOf(5)]", 'Annotated[Decimal, MultipleOf(Decimal("0.01"))]',
        "Annotated[bytes, MaxLen(1000)]",
        "Annotated[date, Ge(date(2000, 1, 1))]", "Annotated[tuple[str, ...], Len(1, 5)]",
        "tuple[Annotated[str, Len(1, 200)], ...]",
    ],
    "Place in the markup": ["Annotated[str, Attribute()]", 'Annotated[str, Element("Full-Name")]'],
}  # fmt: skip


def schema_of(annotation: str) -> etree._Element:
    """The schema of a payload that has one field of this type."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(f"{PREPARED}\n@xmlify\n@dataclass(frozen=True)\nclass Payload:\n    x: {annotation}\n", names)  # noqa: S102
    return etree.fromstring(Codecs().of(names["Payload"]).xsd().encode())


def text_of(declared: etree._Element) -> str:
    """A part of a schema without the declarations of namespaces, which all of them share."""
    declared.tail = None
    etree.indent(declared)
    return re.sub(r' xmlns(:xs)?="[^"]*"', "", etree.tostring(declared, encoding="unicode"))


def block(title: str, *parts: etree._Element) -> list[str]:
    """Format an annotation or a name with its form in a schema."""
    return [f"`{title}`", "", "```xslt", *map(text_of, parts), "```", ""]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    own: dict[str, etree._Element] = {}
    for title, shown in TABLES.items():
        lines += [f"## {title}", ""]
        for annotation in shown:
            schema = schema_of(annotation)
            own |= {str(one.get("name")): one for one in schema.findall(XS + "simpleType")}
            records = [one for one in schema.findall(XS + "complexType") if one.get("name") == "Line"]
            fields = [
                one for one in schema.iter(XS + "element", XS + "attribute") if one.get("name") in FIELDS
            ]
            lines += block(annotation, *fields, *(records if annotation == "Line" else ()))
    lines += ["## Types of the server's own", "", OWN, ""]
    for name, declared in own.items():
        lines += block(name, declared)
    return "\n".join(lines).rstrip() + "\n"


def texts() -> dict[Path, str]:
    """Return the page."""
    return {PAGE: page()}
