"""Parses JSON text from other parties under limits. Pure.

Bytes, values and depth are counted in the text, in linear time and without allocating values, before the parser runs.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE: Final = 1 << 16
"""Bytes of text that are counted in one step."""

NO_JSON: Final = "must be JSON text in UTF-8"


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """Limits on a JSON text.

    Args:
        bytes: in UTF-8.
        values: objects, arrays and scalars together, at all depths.
        depth: nested objects and arrays.
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
    """The first reason to refuse a text or value. Quotes nothing from it.

    Args:
        rule: the rule that was broken.
        pointer: the place as a JSON pointer (RFC 6901); empty for the whole text.
        line: of a text that is malformed, from 1; 0 if it is not known.
    """

    rule: str
    pointer: str = ""
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """Format the reason on one line."""
        return f"{self.pointer or '(value)'}: {self.rule}"


class _RefusalError(ValueError):
    """Refusal of a text that Python's parser accepts but JSON, or a limit, does not. Its message is the rule."""


def count_json(data: bytes, limits: JsonLimits) -> RefusedJson | None:
    """Count bytes, values and depth without parsing. Returns the broken limit, or None.

    In malformed JSON it counts at least up to the first error, which is as far as a parser gets.
    """
    if len(data) > limits.bytes:
        return RefusedJson(f"must have at most {limits.bytes} bytes")
    opened = data.count(b"[") + data.count(b"{")
    if opened + data.count(b",") < limits.values and opened <= limits.depth:
        return None  # an upper bound, because brackets inside strings count too
    counter = JsonCounter(limits)
    for start in range(0, len(data), PIECE):
        refused = counter.feed(data[start : start + PIECE])
        if refused is not None:
            return refused
    return counter.end()


class JsonCounter:
    """Incremental counter of values and depth in a JSON text.

    Args:
        limits: the limits to hold; bytes are not counted here.
    """

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._values = 1
        self._brackets = bytearray()
        self._inside = 0
        self._escape = b""

    def feed(self, piece: bytes) -> RefusedJson | None:
        """Count a chunk. Returns a refusal once the text has too many values, else None.

        Refuses UTF-16 and UTF-32, which some parsers accept: their quotes cannot be counted as bytes.
        """
        if b"\0" in piece:
            return RefusedJson(NO_JSON)
        piece = self._escape + piece
        self._escape = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) & 1 else b""
        if b"\\" in piece:  # from here on every quote begins or ends a string
            piece = piece.removesuffix(self._escape).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b'"'.join(parts[self._inside :: 2]).translate(None, _SPACE)
        self._inside ^= (len(parts) - 1) & 1
        found = outside.translate(_BRACKETS, _NO_BRACKETS)
        # A container of n values has n - 1 commas; an empty one has no comma and no value.
        self._values += outside.count(b",") + found.count(b"[") - outside.count(b"[]") - outside.count(b"{}")
        self._brackets += found
        if self._values <= self._limits.values:
            return None
        return RefusedJson(f"must have at most {self._limits.values} values")

    def end(self) -> RefusedJson | None:
        """Check the depth of the whole text. Returns a refusal if it is too deep, else None."""
        if not _is_deeper(bytes(self._brackets), self._limits.depth):
            return None
        return RefusedJson(f"must nest at most {self._limits.depth} objects and arrays")


_SPACE: Final = b" \t\r\n"
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """Check whether brackets nest deeper than ``depth``; unbalanced ones are left to the parser."""
    for _ in range(depth):
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            break
        brackets = inner
    return b"[" * (depth + 1) in brackets or b"[]" in brackets


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Parser of JSON texts to plain values, for many texts under the same limits. See ``make_json_reader``.

    Args:
        limits: the limits to hold.
        decode: parses a text within the limits of bytes, values and depth.
    """

    limits: JsonLimits
    decode: Callable[[str], Any]

    def parse(self, data: bytes | str) -> Any | RefusedJson:
        """Parse a text, as str or as UTF-8 bytes. Returns the reason if it is refused.

        Refuses broken limits, duplicate members of an object, NaN, Infinity and numbers that overflow to it, lone
        surrogates, and malformed JSON.
        """
        try:
            encoded = data.encode() if isinstance(data, str) else data
            refused = count_json(encoded, self.limits)
            if refused is not None:
                return refused
            value = self.decode(encoded.decode())
            if (
                _HALF_PAIR.search(encoded) is not None
            ):  # costs another traversal, so only if there may be a lone surrogate
                json.dumps(value, ensure_ascii=False, default=str).encode()
        except _RefusalError as error:
            return RefusedJson(str(error))
        except json.JSONDecodeError as error:
            return RefusedJson(NO_JSON, line=error.lineno)
        except (ValueError, ArithmeticError, RecursionError):
            return RefusedJson(NO_JSON)
        return value


def make_json_reader(limits: JsonLimits, number: Callable[[str], Any] = float) -> JsonReader:
    """Make a reader.

    Args:
        limits: the limits to hold.
        number: converts numbers that have a point or an exponent.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=partial(_build_members, limits.members),
        parse_constant=_refuse_constant,
        parse_float=partial(_number, number, limits.digits),
        parse_int=partial(_number, int, limits.digits),
    )
    return JsonReader(limits, decoder.decode)


def parse_json(
    data: bytes | str, limits: JsonLimits, *, number: Callable[[str], Any] = float
) -> Any | RefusedJson:
    """Parse one JSON text to plain values, as ``JsonReader`` does."""
    return make_json_reader(limits, number).parse(data)


def parse_json_or_raise(data: bytes | str, limits: JsonLimits) -> Any:
    """Parse a JSON text to plain values. Raises ValueError with the reason where ``parse_json`` refuses it."""
    found = parse_json(data, limits)
    if isinstance(found, RefusedJson):
        raise ValueError(str(found))  # noqa: TRY004 - a refusal is a value
    return found


_HALF_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _build_members(maximum: int, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > maximum:
        raise _RefusalError(f"must have objects of at most {maximum} members")
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
        raise _RefusalError("must hold no number too large for a binary64")
    if isinstance(value, Decimal) and abs(value.adjusted()) > digits:  # an exponent too large to write out
        raise _RefusalError(f"must have numbers of at most {digits} digits")
    return value
