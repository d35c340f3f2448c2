"""Taking out of a schema what a model would read as words to it.

Owns two strictnesses for JSON Schema, the library's and admission's. Refuses to judge what
remains: names and listed values stay, and the wording rule is what holds them short.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from agentserver.hygiene.json_positions import KEYWORDS, VISIBLE, Holds
from agentserver.hygiene.json_rules import readable


def visible(schema: Any) -> Any:
    """A copy without description, title, $comment and examples wherever a schema stands.

    Members that carry those names and listed values that hold them are no schemas and stay. The value of a
    keyword that is not known counts as a schema.
    """
    if isinstance(schema, list):
        return [visible(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _inner(key, value) for key, value in schema.items() if key not in VISIBLE}


def _inner(keyword: str, value: Any) -> Any:
    holds = KEYWORDS.get(keyword, Holds.SCHEMA)
    if holds is Holds.DATA:
        return deepcopy(value)
    if holds is Holds.NAMED and isinstance(value, dict):
        return {name: visible(each) for name, each in value.items()}
    return visible(value)


def bare(schema: Any) -> Any:
    """The structure alone: without unknown keywords and without defaults that read as text, too."""
    if isinstance(schema, list):
        return [bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _structure(key, value) for key, value in schema.items() if _structural(key, value)}


def _structural(keyword: str, value: Any) -> bool:
    if keyword == "default":
        return value is None or isinstance(value, bool | int | float) or _short(value)
    return keyword in KEYWORDS and keyword not in VISIBLE


def _short(value: Any) -> bool:
    return isinstance(value, str) and readable(value, spaces=True)


def _structure(keyword: str, value: Any) -> Any:
    holds = KEYWORDS[keyword]
    if holds is Holds.DATA:
        return deepcopy(value)
    if holds is Holds.NAMED and isinstance(value, dict):
        return {name: bare(each) for name, each in value.items()}
    return bare(value)
