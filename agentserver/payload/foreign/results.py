"""The payloads that a foreign tool answers with, where its own schema says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from agentserver.contract import Element
from agentserver.payload.fields.lexical import is_xml_text
from agentserver.payload.xmlify import xmlify

if TYPE_CHECKING:
    from collections.abc import Iterable

REPLACED = "\ufffd"


@dataclass(frozen=True)
class ToolData:
    """Octets that a tool gave.

    Args:
        media_type: what the tool says that they are.
        content: the octets.
    """

    media_type: Annotated[str, Element("media-type")]
    content: bytes


@dataclass(frozen=True)
class ToolLink:
    """A reference that a tool gave. Nothing has followed it.

    Args:
        uri: of the resource.
        name: what the tool calls it.
    """

    uri: str
    name: str = ""


@xmlify
@dataclass(frozen=True)
class ToolResult:
    """The answer of a tool that declares no schema of it.

    Args:
        text: its texts, in order.
        data: images, sound and other octets.
        links: references to more.
    """

    text: list[str] = field(default_factory=list)
    data: list[ToolData] = field(default_factory=list)
    links: list[ToolLink] = field(default_factory=list)


@xmlify
@dataclass(frozen=True)
class ToolFailure:
    """A tool's own report that it failed.

    Args:
        text: its explanation.
    """

    text: list[str] = field(default_factory=list)


def legible(texts: Iterable[str]) -> list[str]:
    """Replace every character that XML has not by U+FFFD."""
    return [
        each if is_xml_text(each) else "".join(c if is_xml_text(c) else REPLACED for c in each)
        for each in texts
    ]


def legible_value(value: Any) -> Any:
    """Return a JSON value with its texts as ``legible`` gives them."""
    if isinstance(value, str):
        return legible([value])[0]
    if isinstance(value, list):
        return [legible_value(each) for each in value]
    if isinstance(value, dict):
        return {name: legible_value(each) for name, each in value.items()}
    return value
