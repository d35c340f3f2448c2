"""Settings as a handler gets them: nothing that one invocation changes in them reaches another.

Owns what counts as unchangeable. Refuses to know what settings are for.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import fields
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import Any, TypeAlias, cast
from uuid import UUID

Supply: TypeAlias = Callable[[], object]

_UNCHANGEABLE = (
    *(type(None), bool, int, float, complex, str, bytes, Decimal, Fraction, UUID, PurePath, Enum, re.Pattern, type),
    *(dt.date, dt.time, dt.timedelta, dt.timezone),
    *(IPv4Address, IPv6Address, IPv4Network, IPv6Network),
)  # fmt: skip


def supply(settings: object) -> Supply:
    """The source of each invocation's settings: the object itself when nothing in it can be changed, else a copy."""
    if unchangeable(settings):
        return lambda: settings
    return lambda: deepcopy(settings)


def unchangeable(value: object) -> bool:
    """True when a value and all that it holds stay as they are. A frozen dataclass may, a plain one never."""
    if isinstance(value, _UNCHANGEABLE):
        return True
    if isinstance(value, tuple | frozenset):
        return type(value) in (tuple, frozenset) and all(map(unchangeable, value))
    declared = getattr(type(value), "__dataclass_params__", None)
    if declared is None or not declared.frozen:
        return False
    names = {field.name for field in fields(cast("Any", value))}
    return getattr(value, "__dict__", {}).keys() <= names and all(
        unchangeable(getattr(value, name)) for name in names
    )
