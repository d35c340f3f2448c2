"""JSON text of other parties as plain values under limits.

Owns the limits and the order of the checks: bytes, values and depth are counted in the text, in linear time and without
building anything, before the parser sees it. Pure. Refuses to know models (``models.py``) and threads (``threads.py``).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE: Final = 1 << 16
"""Bytes of a text that are counted at once."""

NO_JSON: Final = "must be JSON text in UTF-8"


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """The most that a JSON text may hold.

    Args:
        bytes: in UTF-8.
        values: objects, arrays and scalars together, at all depths.
        depth: objects and arrays inside one another.
        members: of one object.
        digits: characters of one number.
    """

    bytes: int = 1 << 20
    values: int = 50_000
    depth: int = 64
    members: int = 10_000
    digits: int = 4300


@dataclass(frozen=True, slots=True)
class RefusedJson:
    """The one reason why a text was not read, or does not fit a model. Quotes nothing of the text.

    Args:
        rule: what must hold.
        pointer: the place as a JSON pointer (RFC 6901); empty for the whole text.
    """

    rule: str
    pointer: str = ""

    def __str__(self) -> str:
        """The reason on one line."""
        return f"{self.pointer or '(value)'}: {self.rule}"


class _RefusalError(ValueError):
    """A text that Python's parser reads and JSON, or a limit, does not allow. Its text is the rule."""


def count(data: bytes, limits: JsonLimits) -> RefusedJson | None:
    """Count bytes, values and depth of a JSON text without parsing it. Returns the limit that it breaks, or None.

    Counts a text that is no JSON up to its first error at least, which is as far as a parser gets.
    """
    if len(data) > limits.bytes:
        return RefusedJson(f"must have at most {limits.bytes} bytes")
    opened = data.count(b"[") + data.count(b"{")
    if opened + data.count(b",") < limits.values and opened <= limits.depth:
        return None  # marks inside texts are counted as well, so this many at most
    counter = JsonCounter(limits)
    for start in range(0, len(data), PIECE):
        refused = counter.feed(data[start : start + PIECE])
        if refused is not None:
            return refused
    return counter.end()


class JsonCounter:
    """Counts values and depth of a JSON text that comes in pieces.

    Args:
        limits: what it may hold; its bytes are not counted here.
    """

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._values = 1
        self._brackets = bytearray()
        self._inside = 0
        self._escape = b""

    def feed(self, piece: bytes) -> RefusedJson | None:
        """Count a piece. Returns the limit on values once the text has broken it, else None.

        Refuses UTF-16 and UTF-32, which some parsers read too: their quotes cannot be counted as bytes.
        """
        if b"\0" in piece:
            return RefusedJson(NO_JSON)
        piece = self._escape + piece
        self._escape = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) & 1 else b""
        if b"\\" in piece:  # from here on each quote begins or ends a text
            piece = piece.removesuffix(self._escape).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b'"'.join(parts[self._inside :: 2]).translate(None, _SPACE)
        self._inside ^= (len(parts) - 1) & 1
        found = outside.translate(_BRACKETS, _NO_BRACKETS)
        # A container of n values has n - 1 commas; an empty one has none, and none too many.
        self._values += outside.count(b",") + found.count(b"[") - outside.count(b"[]") - outside.count(b"{}")
        self._brackets += found
        if self._values <= self._limits.values:
            return None
        return RefusedJson(f"must have at most {self._limits.values} values")

    def end(self) -> RefusedJson | None:
        """The limit on depth when the whole text breaks it, else None."""
        if not _is_deeper(bytes(self._brackets), self._limits.depth):
            return None
        return RefusedJson(f"must nest at most {self._limits.depth} objects and arrays")


_SPACE: Final = b" \t\r\n"
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """True when brackets nest deeper; those without a partner are left to the parser."""
    for _ in range(depth):
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            break
        brackets = inner
    return b"[" * (depth + 1) in brackets or b"[]" in brackets


def read(data: bytes | str, limits: JsonLimits, *, number: Callable[[str], Any] = float) -> Any | RefusedJson:
    """Read a JSON text as plain values.

    Args:
        data: the text, UTF-8 where it is bytes.
        limits: what it may hold.
        number: makes the numbers that have a point or an exponent.

    Refuses what breaks a limit, a member that an object has twice, NaN, Infinity and numbers that become it, half
    of a surrogate pair, and what is no JSON.
    """
    try:
        encoded = data.encode() if isinstance(data, str) else data
        refused = count(encoded, limits)
        if refused is not None:
            return refused
        return _parse(encoded, limits, number)
    except _RefusalError as error:
        return RefusedJson(str(error))
    except (ValueError, ArithmeticError, RecursionError):
        return RefusedJson(NO_JSON)


def read_or_raise(data: bytes | str, limits: JsonLimits) -> Any:
    """Read a JSON text as plain values. Raises ValueError with the reason where ``read`` refuses it."""
    found = read(data, limits)
    if isinstance(found, RefusedJson):
        raise ValueError(str(found))  # noqa: TRY004 - a refusal is a value
    return found


def _parse(data: bytes, limits: JsonLimits, number: Callable[[str], Any]) -> Any:
    value = json.loads(
        data.decode(),
        object_pairs_hook=partial(_members, limits.members),
        parse_constant=_refuse_constant,
        parse_float=partial(_number, number, limits.digits),
        parse_int=partial(_number, int, limits.digits),
    )
    if _HALF_PAIR.search(data) is not None:  # costs another walk, so only where there may be one
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


_HALF_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _members(most: int, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > most:
        raise _RefusalError(f"must have objects of at most {most} members")
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _RefusalError("must name each member of an object once")
    return members


def _refuse_constant(_: str) -> Any:
    raise _RefusalError("must hold no NaN and no Infinity, which JSON has not")


def _number(make: Callable[[str], Any], digits: int, text: str) -> Any:
    if len(text) > digits:
        raise _RefusalError(f"must have numbers of at most {digits} digits")
    value = make(text)
    if isinstance(value, float) and math.isinf(value):
        raise _RefusalError("must hold no number beyond those of a binary64")
    if (
        isinstance(value, Decimal) and abs(value.adjusted()) > digits
    ):  # an exponent that nobody could write out
        raise _RefusalError(f"must have numbers of at most {digits} digits")
    return value
