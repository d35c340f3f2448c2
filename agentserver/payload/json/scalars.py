"""Scalars in JSON: their schema, their text in XML, and the value of that text.

Integers are JSON integers of up to DIGITS digits; their -0 is 0. A ``float`` is a number, -0 kept, or one of the
texts NaN, INF and -INF, for which JSON has no number. A ``Decimal`` is given as text, which keeps every digit, and
taken as text or as a number; a binary number with more digits than it can vouch for is refused. Moments are text in
ISO 8601, octets are base64.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from agentserver.payload.corrections import label
from agentserver.payload.fields.facets import fits, json
from agentserver.payload.fields.lexical import DIGITS, READERS, WRITERS, ScalarKind, is_xml_text
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
"""The lexical form of each kind; the schema judges the value."""
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
    """Return the JSON Schema of a scalar.

    A ``description`` covers the rules that the keywords cannot state.
    """
    found: dict[str, Any] = {"type": _TYPES[scalar.kind]}
    if scalar.choices:
        return found | {"enum": [READERS[scalar.kind](text) for text, _ in scalar.choices]}
    if scalar.kind in _FORMS:
        found["pattern"] = f"^(?:{_FORMS[scalar.kind]})$"
    if scalar.kind is ScalarKind.BYTES:
        found["contentEncoding"] = "base64"
    stated = [*json(scalar.kind, scalar.facets)]
    for keywords, _ in stated:
        found = _join_keywords(found, keywords)
    if not (_formless(scalar, stated) and all(whole for _, whole in stated)):
        found["description"] = label(scalar)
    names = _list_non_numbers(scalar) if scalar.kind is ScalarKind.FLOAT else []
    return {"anyOf": [found, {"enum": names}]} if names else found


def _join_keywords(found: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return both: a keyword that is taken, as ``pattern`` is by the form of a date, goes to ``allOf``."""
    both = {**more, **found}
    again = [{name: value} for name, value in more.items() if name in found and name != "allOf"]
    every = [*found.get("allOf", ()), *more.get("allOf", ()), *again]
    return {**both, "allOf": every} if every else both


def _formless(scalar: Scalar, stated: list[tuple[dict[str, Any], bool]]) -> bool:
    """Check whether no form of a text narrows a scalar: what a keyword says of a number, it does not of its text."""
    return scalar.kind not in _FORMS or (scalar.kind is ScalarKind.DECIMAL and not stated)


def _list_non_numbers(scalar: Scalar) -> list[str]:
    """List the texts for NaN and infinities that a float's facets allow."""
    return [name for name in ("NaN", "INF", "-INF") if fits(scalar.facets, READERS[ScalarKind.FLOAT](name))]


def text(scalar: Scalar, value: Any) -> str | None:
    """Return the XML text of a JSON value; None for a value of another type or form. Facets are not looked at."""
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
        return value if is_xml_text(value) else None
    if kind is ScalarKind.FLOAT:
        return value if value in {"NaN", "INF", "-INF"} else None
    known = _FORMS.get(kind)
    return value if known is not None and re.fullmatch(known, value) else None


def _read_whole(value: float | Decimal) -> str | None:
    """Return an integer; a number whose fraction is zero is one, unless it is binary and too large to be exact."""
    if isinstance(value, float):
        value = int(value) if value.is_integer() and abs(value) <= SAFE else math.nan
    elif isinstance(value, Decimal):
        small = value.is_finite() and value.adjusted() < DIGITS
        value = int(value) if small and value == value.to_integral_value() else math.nan
    return _write_number(ScalarKind.INT, value)


def _real(value: float | Decimal) -> str | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return _write_number(ScalarKind.FLOAT, number) if math.isfinite(number) else None


def _decimal(value: float | Decimal) -> str | None:
    if isinstance(value, float):
        shortest = Decimal(repr(value))
        if not shortest.is_finite() or len(shortest.as_tuple().digits) > EXACT:
            return None
        value = shortest
    return _write_number(ScalarKind.DECIMAL, value)


def _write_number(kind: ScalarKind, value: Any) -> str | None:
    try:
        return WRITERS[kind](value)
    except (TypeError, ValueError):
        return None


_NUMBERS: Final = {ScalarKind.INT: _read_whole, ScalarKind.FLOAT: _real, ScalarKind.DECIMAL: _decimal}


def value(scalar: Scalar, written: str | None) -> Any:
    """Return the JSON value of a text that the schema and the decoder accept."""
    found = READERS[scalar.kind](written or "")
    if scalar.kind in {ScalarKind.STR, ScalarKind.INT, ScalarKind.BOOL}:
        return found
    if scalar.kind is ScalarKind.FLOAT and math.isfinite(found):
        return found
    return WRITERS[scalar.kind](found)
