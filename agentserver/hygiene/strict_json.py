"""JSON text as strangers send it, read in one meaning only.

Owns what is refused: a member twice, numbers that JSON does not have, nesting without bound. Refuses to know what the
text is about.
"""

from __future__ import annotations

import json
from typing import Any


def loads(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for a member twice, NaN, Infinity and too deep nesting."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refused)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member twice")
    return members


def _refused(name: str) -> Any:
    raise ValueError(name)
