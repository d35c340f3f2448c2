"""Reads the data of Python objects, for programs that pass more than JSON to their tools.

A model writes JSON, but the program around it may build an object from that. An object is read if it holds data alone.
A client, an open file or an iterator counts as unread: its data cannot be known before the tool uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, Final, NamedTuple

_KNOWN: Final = (int, float, Decimal, date, time, Mapping, Sequence, AbstractSet)
"""Types that need no conversion."""

_FAILURES: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors of the code of a program, which describes its own objects."""

_PRIVATE: Final = "__pydantic_private__"
"""Attribute in which a model of pydantic keeps its private ones."""


class ObjectData(NamedTuple):
    """Contents of an object that is no container.

    Args:
        text: the object as Python prints it.
        held: its attributes, private ones as well. They count only if all of them can be read.
        worded: whether its class says what it prints, so that the text counts.
    """

    text: str
    held: Mapping[str, Any]
    worded: bool


def simplify_object(value: Any) -> Any:
    """Convert a value that is no plain scalar to a mapping, a sequence, a scalar, or ``ObjectData``."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name, None) for each in fields(value)} | _list_attributes(
            value
        )
    model = _call(value, "model_dump")
    if isinstance(model, Mapping):  # it lacks fields that are excluded, and private attributes
        own = _list_attributes(value) | dict(getattr(value, _PRIVATE, None) or {})
        return {**own, **model}
    if isinstance(model, Sequence):
        return model
    if value is None or isinstance(value, _KNOWN):
        return value
    array = _call(value, "tolist")
    return array if isinstance(array, _KNOWN) else _read_object(value)


def _call(value: Any, method: str) -> Any:
    """Return what a method of an object returns; None without the method, or if it fails."""
    try:
        found = None if isinstance(value, type) else getattr(value, method, None)
        return found() if callable(found) else None
    except _FAILURES:
        return None


def _read_object(value: Any) -> ObjectData:
    try:
        text = str(value)
    except _FAILURES:
        text = type(value).__qualname__
    worded = any("__str__" in each.__dict__ for each in type(value).__mro__[:-1])
    # Without a dictionary it is a value such as a UUID or a path, whose text says all of it.
    complete = worded and not hasattr(value, "__dict__") and not isinstance(value, Iterator)
    return ObjectData(text, {} if complete else _list_attributes(value), worded)


def _list_attributes(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", None) or {})
    for each in type(value).__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = name.startswith("__") and not name.endswith("__")
            held = f"_{each.__name__.lstrip('_')}{name}" if mangled else name
            if not held.startswith("__") and hasattr(value, held):
                found[held] = getattr(value, held)
    return found
