"""Scalars in JSON: their schema, their text in XML, and the value of that text.

Owns the JSON value of each scalar. Refuses to know single facets: their table states each, the XSD judges.

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
from agentserver.payload.fields.facets import fits, json
from agentserver.payload.fields.lexical import DIGITS, READERS, WRITERS, ScalarKind, carried
from agentserver.payload.xsd.schema import form

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """The JSON Schema of a scalar. Its ``description`` says what it is in words where the keywords do not say all."""
    found: dict[str, Any] = {"type": _TYPES[scalar.kind]}
    if scalar.choices:
        return found | {"enum": [READERS[scalar.kind](text) for text, _ in scalar.choices]}
    if scalar.kind in _FORMS:
        found["pattern"] = f"^(?:{_FORMS[scalar.kind]})$"
    if scalar.kind is ScalarKind.BYTES:
        found["contentEncoding"] = "base64"
    stated = [*json(scalar.kind, scalar.facets)]
    for keywords, _ in stated:
        found = _joined(found, keywords)
    if not (_formless(scalar, stated) and all(whole for _, whole in stated)):
        found["description"] = label(scalar)
    names = _unlimited(scalar) if scalar.kind is ScalarKind.FLOAT else []
    return {"anyOf": [found, {"enum": names}]} if names else found


def _joined(found: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both: a keyword that is taken, as ``pattern`` is by the form of a date, goes to ``allOf``."""
    both = {**more, **found}
    again = [{name: value} for name, value in more.items() if name in found and name != "allOf"]
    every = [*found.get("allOf", ()), *more.get("allOf", ()), *again]
    return {**both, "allOf": every} if every else both


def _formless(scalar: Scalar, stated: list[tuple[dict[str, Any], bool]]) -> bool:
    """True when no form of a text narrows a scalar: what a keyword says of a number, it does not of its text."""
    return scalar.kind not in _FORMS or (scalar.kind is ScalarKind.DECIMAL and not stated)


def _unlimited(scalar: Scalar) -> list[str]:
    """The texts of what is no number that a float's facets let through."""
    return [name for name in ("NaN", "INF", "-INF") if fits(scalar.facets, READERS[ScalarKind.FLOAT](name))]


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
