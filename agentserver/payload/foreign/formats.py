"""Formats that a foreign JSON Schema states for its texts, as marks of the fields of its payload class."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class StatedFormat:
    """Mark of a text whose foreign schema states a ``format``, such as ``email``. It constrains nothing.

    Args:
        name: the format, as the schema writes it.
    """

    no_constraint: ClassVar = True
    name: str


def is_foreign(payload: type) -> bool:
    """Check whether a payload class was made from a foreign schema."""
    return bool(vars(payload).get("__foreign__", False))


def list_formats(payload: type) -> tuple[tuple[str, str], ...]:
    """List the fields of a foreign payload class with a stated format: path without indices, and format."""
    return tuple(_list_formats(payload, "")) if is_foreign(payload) else ()


def _list_formats(payload: Any, prefix: str) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(payload, include_extras=True)
    for field in fields(payload):
        path = f"{prefix}{field.name}"
        for part in _list_parts(hints[field.name]):
            if isinstance(part, StatedFormat):
                yield path, part.name
            elif isinstance(part, type) and is_dataclass(part):
                yield from _list_formats(part, f"{path}.")


def _list_parts(hint: Any) -> Iterator[Any]:
    """List the types and marks that a hint consists of."""
    yield hint
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        if isinstance(inner, type) or get_args(inner):
            yield from _list_parts(inner)
