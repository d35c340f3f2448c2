"""The texts of docstrings about a dataclass and its fields.

Owns the reading of docstrings, in any style that docstring-parser knows, and a bound. Refuses to know XML.
"""

from __future__ import annotations

import dataclasses

from docstring_parser import parse

from agentserver.payload.fields.lexical import carried

DOC = 1000
"""Most characters of one documentation text."""


def documentation(cls: type) -> tuple[str, dict[str, str]]:
    """The documentation of the class and of its fields, those of its base classes included."""
    docs: dict[str, str] = {}
    prose = ""
    for each in reversed(cls.__mro__):
        text = each.__dict__.get("__doc__")
        if dataclasses.is_dataclass(each) and isinstance(text, str) and not _generated(each, text):
            prose, found = _parsed(text)
            docs.update(found)
    return prose, docs


def _generated(cls: type, text: str) -> bool:
    return text.startswith(f"{cls.__name__}(") and text.endswith(")")


def _parsed(text: str) -> tuple[str, dict[str, str]]:
    doc = parse(text)
    prose = doc.description or ""
    names: dict[str, str] = {}
    for param in doc.params:
        for name in param.arg_name.split(","):
            names[name.strip()] = _bounded(param.description or "")
    return _bounded(prose), names


def _bounded(text: str) -> str:
    words = " ".join(text.split())[:DOC]
    return words if carried(words) else ""
