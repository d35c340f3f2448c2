"""Extracts the user's texts from a query: a text, or messages in the forms of frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Query: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]

USERS: Final = frozenset({"user", "human"})
_TEXTS: Final = ("input", "query", "question")
"""Keys that frameworks use for a single text."""


def trusted_texts(query: Query) -> tuple[str, ...]:
    """Return the user's texts of a query in order. Raises ValueError if it has none."""
    if isinstance(query, str):
        return (query,)
    messages = query
    if isinstance(query, Mapping):
        named = next((query[key] for key in _TEXTS if isinstance(query.get(key), str)), None)
        if named is not None:
            return (named,)
        messages = query.get("messages", ())
    found = tuple(text for each in messages if _is_from_user(each) for text in _content_texts(each))
    if not found:
        raise ValueError('the query has no text of a user: pass {"role": "user", "content": "..."}')
    return found


def _is_from_user(message: Any) -> bool:
    """Return whether a message names a user as its author; without a role it has no author."""
    if not isinstance(message, Mapping):
        return False
    return message.get("role", message.get("type")) in USERS


def _content_texts(message: Any) -> tuple[str, ...]:
    content = message.get("content")
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return tuple(text for text in texts if isinstance(text, str))
