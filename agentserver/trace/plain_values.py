"""Converts decoded payloads to plain values, for JSON and for people."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator


def jsonable(value: Any) -> Any:
    """Convert a payload to JSON values.

    Times are ISO 8601, a Decimal is text, bytes are URL-safe base64 (RFC 4648), and an Enum is its value. A float
    that JSON cannot write is text, and so is any other type that JSON does not have, as in a generated dataclass.
    """
    return from_json(to_json(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str))


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One field of a payload: its depth, name, text (None for a heading) and ``held`` value."""

    depth: int
    name: str
    text: str | None
    held: Any = dataclasses.field(default=None, compare=False)


def entries(value: Any, depth: int = 0) -> Iterator[Entry]:
    """Yield the fields of a payload in order, without absent ones and empty lists."""
    for each in dataclasses.fields(value):
        held = getattr(value, each.name)
        many = isinstance(held, list | tuple)
        for index, item in enumerate(held if many else (held,)):
            if item is None:
                continue
            name = f"{each.name}[{index}]" if many else each.name
            if dataclasses.is_dataclass(item):
                yield Entry(depth, name, None)
                yield from entries(item, depth + 1)
            else:
                yield Entry(depth, name, _text(item), item)


def _text(value: Any) -> str:
    shown = jsonable(value)
    return str(shown).lower() if isinstance(shown, bool) else str(shown)
