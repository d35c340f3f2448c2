"""Changed copies of frozen values, for the state that each message changes.

`dataclasses.replace` looks up every field by its metadata and calls the constructor. A ledger is copied several times
for each message, and has no constructor of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import replace as change  # so that names and types are checked
else:
    _set = object.__setattr__

    def change(value: Any, /, **changes: Any) -> Any:
        """Return a copy of a frozen dataclass with slots and some other fields.

        Its class derives from no other one with fields, and has no ``__post_init__``. Raises TypeError for an unknown
        field.
        """
        kind = type(value)
        copied = object.__new__(kind)
        for name in kind.__slots__:
            _set(copied, name, getattr(value, name))
        for name, other in changes.items():
            try:
                _set(copied, name, other)
            except AttributeError:
                raise TypeError(f"{kind.__name__} has no such fields: {name}") from None
        return copied


__all__ = ["change"]
