"""The texts of docstrings about a dataclass and its fields."""

from __future__ import annotations

import dataclasses

from docstring_parser import parse

from agentserver.payload.fields.lexical import is_xml_text

DOC = 1000
"""Most characters of one documentation text."""


def read_documentation(cls: type) -> tuple[str, dict[str, str]]:
    """Return the documentation of the class and its fields, including inherited ones."""
    docs: dict[str, str] = {}
    prose = ""
    for each in reversed(cls.__mro__):
        text = each.__dict__.get("__doc__")
        if dataclasses.is_dataclass(each) and isinstance(text, str) and not _is_generated(each, text):
            prose, found = _parse(text)
            docs.update(found)
    return prose, docs


def _is_generated(cls: type, text: str) -> bool:
    return text.startswith(f"{cls.__name__}(") and text.endswith(")")


def _parse(text: str) -> tuple[str, dict[str, str]]:
    doc = parse(text)
    prose = doc.description or ""
    names: dict[str, str] = {}
    for param in doc.params:
        for name in param.arg_name.split(","):
            names[name.strip()] = _truncate(param.description or "")
    return _truncate(prose), names


def _truncate(text: str) -> str:
    words = " ".join(text.split())[:DOC]
    return words if is_xml_text(words) else ""
