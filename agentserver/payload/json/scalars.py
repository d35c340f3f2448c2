"""Scalars in JSON: their schema, their text in XML, and the value of that text.

Owns which JSON value stands for which scalar. Refuses to judge facets: the XSD does.

Integers are JSON integers of up to DIGITS digits; their -0 is 0. A ``float`` is a number, -0 kept, or one of the texts
NaN, INF and -INF, for which JSON has no number. A ``Decimal`` is given as text, which keeps every digit, and taken
as text or as a number; a binary number with more digits than it can vouch for is refused. Moments are text in ISO
8601, octets are base64.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from agentserver.payload.corrections import label
from agentserver.payload.fields.facets import NO_FACETS
from agentserver.payload.fields.lexical import DIGITS, READERS, WRITERS, ScalarKind, carried
from agentserver.payload.json.patterns import portable
from agentserver.payload.xsd.schema import form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.payload.fields.facets import Range
    from agentserver.payload.fields.field_table import Scalar

SAFE: Final = 2**53
"""Integers up to here are exact in a binary number."""
EXACT: Final = 15
"""Significant digits of a decimal number that a binary one always keeps."""

_NUMERAL: Final = r"[+\-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_BASE64: Final = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_FORMS: Final[Mapping[ScalarKind, str]] = {
    ScalarKind.DECIMAL: _NUMERAL,
    ScalarKind.DATE: form(ScalarKind.DATE),
    ScalarKind.TIME: form(ScalarKind.TIME),
    ScalarKind.DATETIME: form(ScalarKind.DATETIME),
    ScalarKind.BYTES: _BASE64,
}
"""The texts by which a kind is written; the schema judges what they say."""
_TYPES: Final[Mapping[ScalarKind, Any]] = {
    ScalarKind.STR: "string",
    ScalarKind.INT: "integer",
    ScalarKind.FLOAT: "number",
    ScalarKind.BOOL: "boolean",
    ScalarKind.DECIMAL: ["number", "string"],
    ScalarKind.DATE: "string",
    ScalarKind.TIME: "string",
    ScalarKind.DATETIME: "string",
    ScalarKind.BYTES: "string",
}


def schema(scalar: Scalar) -> dict[str, Any]:
    """The JSON Schema of a scalar. What it cannot state of the scalar's facets is in its ``description``."""
    found: dict[str, Any] = {"type": _TYPES[scalar.kind]}
    if scalar.choices:
        return found | {"enum": [READERS[scalar.kind](text) for text, _ in scalar.choices]}
    facets = scalar.facets
    if scalar.kind in _FORMS:
        found["pattern"] = f"^(?:{_FORMS[scalar.kind]})$"
    if scalar.kind is ScalarKind.BYTES:
        found |= {"contentEncoding": "base64"} | _sizes(
            _octets(facets.length.least), _octets(facets.length.most)
        )
    elif scalar.kind is ScalarKind.STR:
        found |= _sizes(facets.length.least, facets.length.most) | _patterns(facets.patterns)
    elif scalar.kind in {ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.DECIMAL}:
        found |= _bounds(facets.bounds)
    if scalar.kind is ScalarKind.INT and facets.step is not None:
        found["multipleOf"] = int(facets.step)
    if not _stated(scalar):
        found["description"] = label(scalar)
    names = _unlimited(facets.bounds) if scalar.kind is ScalarKind.FLOAT else []
    return {"anyOf": [found, {"enum": names}]} if names else found


def _stated(scalar: Scalar) -> bool:
    """True when the keywords say all that narrows a scalar."""
    if scalar.kind is ScalarKind.DECIMAL:
        return scalar.facets == NO_FACETS
    return scalar.kind not in _FORMS


def _octets(count: int | None) -> int | None:
    """Characters of base64 for so many octets."""
    return None if count is None else -(-count // 3) * 4


def _sizes(least: int | None, most: int | None) -> dict[str, Any]:
    found = {"minLength": least} if least else {}
    return found if most is None else found | {"maxLength": most}


def _patterns(texts: tuple[str, ...]) -> dict[str, Any]:
    known = [each for each in map(portable, texts) if each]
    found: dict[str, Any] = {"pattern": known[0]} if len(known) == 1 else {}
    if len(known) > 1:
        found = {"allOf": [{"pattern": each} for each in known]}
    unknown = [each for each in texts if not portable(each)]
    return found | ({"description": f"matching {' and '.join(unknown)}"} if unknown else {})


def _bounds(bounds: Range) -> dict[str, Any]:
    found = {}
    for end, inside, outside in (
        (bounds.lower, "minimum", "exclusiveMinimum"),
        (bounds.upper, "maximum", "exclusiveMaximum"),
    ):
        number = None if end is None else _number(end.value)
        if end is not None and number is not None:
            found[inside if end.inclusive else outside] = number
    return found


def _number(value: Any) -> int | float | None:
    """A bound as JSON writes it; None for one that a binary number has not."""
    if not isinstance(value, Decimal):
        return value if math.isfinite(value) else None
    if value == value.to_integral_value() and value.adjusted() < DIGITS:
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else None


def _unlimited(bounds: Range) -> list[str]:
    """The texts of what is no number that a float's bounds let through."""
    if bounds.lower is None and bounds.upper is None:
        return ["NaN", "INF", "-INF"]
    return ["INF"] * (bounds.upper is None) + ["-INF"] * (bounds.lower is None)


def text(scalar: Scalar, value: Any) -> str | None:
    """The XML text of a JSON value; None for a value of another type or form. Facets are not looked at."""
    kind = scalar.kind
    if isinstance(value, bool):
        written = WRITERS[ScalarKind.BOOL](value) if kind is ScalarKind.BOOL else None
    elif isinstance(value, str):
        written = _from_text(kind, value)
    elif isinstance(value, (int, float, Decimal)) and kind in _NUMBERS:
        written = _NUMBERS[kind](value)
    else:
        written = None
    if scalar.choices and written not in {each for each, _ in scalar.choices}:
        return None
    return written


def _from_text(kind: ScalarKind, value: str) -> str | None:
    if kind is ScalarKind.STR:
        return value if carried(value) else None
    if kind is ScalarKind.FLOAT:
        return value if value in {"NaN", "INF", "-INF"} else None
    known = _FORMS.get(kind)
    return value if known is not None and re.fullmatch(known, value) else None


def _whole(value: float | Decimal) -> str | None:
    """An integer; a number whose fraction is zero is one, unless it is binary and too large to be exact."""
    if isinstance(value, float):
        value = int(value) if value.is_integer() and abs(value) <= SAFE else math.nan
    elif isinstance(value, Decimal):
        small = value.is_finite() and value.adjusted() < DIGITS
        value = int(value) if small and value == value.to_integral_value() else math.nan
    return _written(ScalarKind.INT, value)


def _real(value: float | Decimal) -> str | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return _written(ScalarKind.FLOAT, number) if math.isfinite(number) else None


def _decimal(value: float | Decimal) -> str | None:
    if isinstance(value, float):
        shortest = Decimal(repr(value))
        if not shortest.is_finite() or len(shortest.as_tuple().digits) > EXACT:
            return None
        value = shortest
    return _written(ScalarKind.DECIMAL, value)


def _written(kind: ScalarKind, value: Any) -> str | None:
    try:
        return WRITERS[kind](value)
    except (TypeError, ValueError):
        return None


_NUMBERS: Final = {ScalarKind.INT: _whole, ScalarKind.FLOAT: _real, ScalarKind.DECIMAL: _decimal}


def value(scalar: Scalar, written: str | None) -> Any:
    """The JSON value of a text that the schema and the decoder accept."""
    found = READERS[scalar.kind](written or "")
    if scalar.kind in {ScalarKind.STR, ScalarKind.INT, ScalarKind.BOOL}:
        return found
    if scalar.kind is ScalarKind.FLOAT and math.isfinite(found):
        return found
    return WRITERS[scalar.kind](found)
