"""Options of a payload: choices among values that its type lists. Needs the extra ``provenance``, unlike marks."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.policy import forms, marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OPTIONS: Final = 16
"""Maximum values of an enumeration whose choice is an option."""

ID_DIGITS: Final = 2
"""Digits of a listed value from which on it counts as an id."""


def find_options(payload: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Find the fields of a payload whose choice is an option, with the values that their types list."""
    return tuple(_find_options(payload, "", ()))


def _find_options(
    payload: Any, prefix: str, above: tuple[type, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    hints = get_type_hints(payload)
    for field in fields(payload):
        path = f"{prefix}{field.name}"
        values = list_options(_list_values(hints[field.name]))
        if values:
            yield path, values
        for inner in marks.find_dataclasses(hints[field.name]):
            if inner not in above:
                yield from _find_options(inner, f"{path}.", (*above, inner))


def _list_values(hint: Any) -> tuple[Any, ...]:
    """List the values of a literal, an enumeration, or an optional or a list of them; empty for other types."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return tuple(one.value for one in hint)
    inner = [one for one in get_args(hint) if one is not type(None)]
    return _list_values(inner[0]) if len(inner) == 1 else ()


def list_options(values: Sequence[Any]) -> tuple[str, ...]:
    """List the values of an enumeration as options; empty if choosing one of them names a thing or a receiver.

    More than ``OPTIONS`` values select a thing, and so do addresses, running text and ids.
    """
    texts = tuple(format_text(value) for value in values if value is not None)
    plain = all(isinstance(value, str) for value in values if value is not None)
    is_addressed = any(
        forms.names_receiver(text) or forms.is_running_text(text) or sum(map(str.isdigit, text)) >= ID_DIGITS
        for text in texts
    )
    return texts if plain and 1 < len(texts) <= OPTIONS and not is_addressed else ()
