"""The words to an agent: a text, or messages as frameworks write them.

Owns which of it are the principal's words. Refuses to know agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Query: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]

USERS: Final = frozenset({"user", "human"})
_TEXTS: Final = ("input", "query", "question")
"""The keys under which a framework takes one text."""


def trusted_texts(query: Query) -> tuple[str, ...]:
    """The principal's words in a query, in order. Raises ValueError where there are none."""
    if isinstance(query, str):
        return (query,)
    messages = query
    if isinstance(query, Mapping):
        named = next((query[key] for key in _TEXTS if isinstance(query.get(key), str)), None)
        if named is not None:
            return (named,)
        messages = query.get("messages", ())
    found = tuple(text for each in messages if _of_user(each) for text in _texts(each))
    if not found:
        raise ValueError('nothing in the query is a user\'s text: give {"role": "user", "content": "..."}')
    return found


def _of_user(message: Any) -> bool:
    """Only what says that it is a user's is; a message without a role is nobody's."""
    if not isinstance(message, Mapping):
        return False
    return message.get("role", message.get("type")) in USERS


def _texts(message: Any) -> tuple[str, ...]:
    content = message.get("content")
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return tuple(text for text in texts if isinstance(text, str))
