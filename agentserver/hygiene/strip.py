"""Taking out of a schema what a model would read as words to it.

Owns two strictnesses for JSON Schema, the library's and admission's. Refuses to judge what
remains: names and listed values stay, and the wording rule is what holds them short.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from agentserver.hygiene.json_positions import KEYWORDS, VISIBLE, Holds
from agentserver.hygiene.json_rules import readable

if TYPE_CHECKING:
    from collections.abc import Callable


def visible(schema: Any) -> Any:
    """A copy without description, title, $comment and examples wherever a schema stands.

    Members that carry those names and listed values that hold them are no schemas and stay. The value of a
    keyword that is not known counts as a schema.
    """
    return _stripped(schema, lambda keyword, _: keyword not in VISIBLE)


def bare(schema: Any) -> Any:
    """The structure alone: without unknown keywords and without defaults that read as text, too."""
    return _stripped(schema, _structural)


def _stripped(schema: Any, stays: Callable[[str, Any], bool]) -> Any:
    if isinstance(schema, list):
        return [_stripped(each, stays) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: _inner(keyword, value, stays) for keyword, value in schema.items() if stays(keyword, value)
    }


def _inner(keyword: str, value: Any, stays: Callable[[str, Any], bool]) -> Any:
    holds = KEYWORDS.get(keyword, Holds.SCHEMA)
    if holds is Holds.DATA:
        return deepcopy(value)
    if holds is Holds.NAMED and isinstance(value, dict):
        return {name: _stripped(each, stays) for name, each in value.items()}
    return _stripped(value, stays)


def _structural(keyword: str, value: Any) -> bool:
    if keyword == "default":
        scalar = value is None or isinstance(value, bool | int | float)
        return scalar or (isinstance(value, str) and readable(value, spaces=True))
    return keyword in KEYWORDS and keyword not in VISIBLE
