"""Dataclasses that are made from descriptions of their fields, with names that Python and XML allow."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Final

from agentserver.contract import Element
from agentserver.payload.fields.field_table import NAME_LENGTH
from agentserver.payload.names import free
from agentserver.payload.xmlify import xmlify

XML_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
"""The names that need no care anywhere."""


@dataclass(frozen=True, slots=True)
class NewField:
    """One field of a class to be.

    Args:
        xml: its element.
        annotation: its type when present.
        optional: whether it may be left out.
        listed: whether it is a list.
        doc: one line about it.
    """

    xml: str
    annotation: Any
    optional: bool = False
    listed: bool = False
    doc: str = ""


class MemberNames:
    """XML names for the members of one object, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def xml(self, foreign: str) -> str:
        """Return a name like the foreign one that no other member has."""
        wanted = re.sub(r"[^A-Za-z0-9_.\-]", "_", foreign)[: NAME_LENGTH // 2] or "_"
        return free(wanted if XML_NAME.fullmatch(wanted) else f"_{wanted}", self._taken)


def dataclass_of(name: str, entries: list[NewField], doc: str) -> type:
    """Return a frozen dataclass, documented as docstrings are."""
    fields: list[tuple[str, Any, Any]] = []
    docs: list[str] = []
    for at, each in enumerate(entries):
        python = re.sub(r"\W", "_", each.xml, flags=re.ASCII)
        taken = {known for known, _, _ in fields}
        if keyword.iskeyword(python) or python.startswith("_") or python in taken:
            python = f"{python.strip('_')}_{at}" if python.strip("_")[:1].isalpha() else f"field_{at}"
        annotation: Any = Annotated[each.annotation, Element(each.xml)]
        if each.listed and each.optional:
            fields.append((python, annotation, field(default_factory=list)))
        elif each.optional:
            fields.append((python, Annotated[each.annotation | None, Element(each.xml)], None))
        else:
            fields.append((python, annotation, field()))
        if each.doc:
            docs.append(f"    {python}: {each.doc}")
    lines = [doc or f"{name}.", *(["", "Args:", *docs] if docs else [])]
    made = make_dataclass(name, fields, frozen=True, kw_only=True, namespace={"__doc__": "\n".join(lines)})
    made.__qualname__ = name
    return made


def payload_class(name: str, entries: list[NewField], namespace: str, doc: str) -> type:
    """Return the payload class of a root. Raises PayloadError, also for a schema that makes no sense as a whole."""
    local = re.sub(r"[^A-Za-z0-9_]", "_", name)
    cls = dataclass_of(local if XML_NAME.fullmatch(local) else f"_{local}", entries, doc)
    made: type = xmlify(name=name, namespace=namespace)(cls)
    return made
