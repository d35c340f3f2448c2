"""The JSON Schema (2020-12) of a payload class, from its field table.

A schema takes what :func:`agentserver.payload.json.elements.element_of` takes, except for rules that JSON Schema
cannot state: characters that XML has not, days that no calendar has, bounds of moments, octets and decimal texts,
steps of decimals.

Integers are JSON integers of up to DIGITS digits; their -0 is 0. A ``float`` is a number, -0 kept, or one of the
texts NaN, INF and -INF, for which JSON has no number. A ``Decimal`` is written as text, which keeps every digit, and
read as text or as a number; a binary number with more digits than it can vouch for is refused. Moments are text in
ISO 8601, octets are base64.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from agentserver.payload.corrections import label
from agentserver.payload.fields.facets import fits, iter_json_keywords
from agentserver.payload.fields.field_table import Count, FieldKind, RecordType, Scalar
from agentserver.payload.fields.lexical import DIGITS, READERS, WRITERS, ScalarKind, is_xml_text
from agentserver.payload.json.values import JsonFault, JsonRefusal, refusal
from agentserver.payload.xsd.schema import form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Field, PayloadType, Type

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
    stated = [*iter_json_keywords(scalar.kind, scalar.facets)]
    for keywords, _ in stated:
        found = _join_keywords(found, keywords)
    if not (_is_formless(scalar, stated) and all(whole for _, whole in stated)):
        found["description"] = label(scalar)
    names = _list_non_numbers(scalar) if scalar.kind is ScalarKind.FLOAT else []
    return {"anyOf": [found, {"enum": names}]} if names else found


def _join_keywords(found: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Return both: a keyword that is taken, as ``pattern`` is by the form of a date, goes to ``allOf``."""
    both = {**added, **found}
    repeated = [{name: value} for name, value in added.items() if name in found and name != "allOf"]
    every = [*found.get("allOf", ()), *added.get("allOf", ()), *repeated]
    return {**both, "allOf": every} if every else both


def _is_formless(scalar: Scalar, stated: list[tuple[dict[str, Any], bool]]) -> bool:
    """Check whether no form of a text narrows a scalar: what a keyword says of a number, it does not of its text."""
    return scalar.kind not in _FORMS or (scalar.kind is ScalarKind.DECIMAL and not stated)


def _list_non_numbers(scalar: Scalar) -> list[str]:
    """List the texts for NaN and infinities that a float's facets allow."""
    return [name for name in ("NaN", "INF", "-INF") if fits(scalar.facets, READERS[ScalarKind.FLOAT](name))]


def find_text(scalar: Scalar, value: Any) -> str | None:
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


def _format_real(value: float | Decimal) -> str | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return _write_number(ScalarKind.FLOAT, number) if math.isfinite(number) else None


def _format_decimal(value: float | Decimal) -> str | None:
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


_NUMBERS: Final = {
    ScalarKind.INT: _read_whole,
    ScalarKind.FLOAT: _format_real,
    ScalarKind.DECIMAL: _format_decimal,
}


def value(scalar: Scalar, written: str | None) -> Any:
    """Return the JSON value of a text that the schema and the decoder accept."""
    found = READERS[scalar.kind](written or "")
    if scalar.kind in {ScalarKind.STR, ScalarKind.INT, ScalarKind.BOOL}:
        return found
    if scalar.kind is ScalarKind.FLOAT and math.isfinite(found):
        return found
    return WRITERS[scalar.kind](found)


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def explain_missing_table(codec: Codec) -> JsonRefusal | None:
    """Return the reason why a payload has no JSON form.

    None when it has one. A hand-written XSD leaves no field table.
    """
    if codec.described is not None:
        return None
    label = codec.payload.__qualname__
    return refusal(
        JsonFault("", f"{label} is bound to a hand-written XSD and has no JSON form; declare it with @xmlify")
    )


def json_schema(codec: Codec) -> dict[str, Any] | JsonRefusal:
    """Return the JSON Schema of a payload, its fields documented by the docstring of its class.

    A record that is used once is written in place; others are under ``$defs``.
    """
    if codec.described is None:
        return explain_missing_table(codec) or refusal()
    return {"$schema": DIALECT} | _Writer(codec.described).build_root()


def members(record: RecordType) -> Mapping[str, Field]:
    """Return the fields of a record by their name in JSON.

    It is the name in XML; an attribute that is called as an element of the same record has an ``@`` before it.
    """
    elements = {field.xml for field in record.list_fields_at(FieldKind.ELEMENT)}
    return {
        f"@{field.xml}" if field.place is FieldKind.ATTRIBUTE and field.xml in elements else field.xml: field
        for field in record.fields
    }


class TextMemberError(ValueError):
    """Payload without a single text that a chat could fill. ``suggestion`` is a likely correction."""

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(message)
        self.suggestion = suggestion


def find_text_member(payload: PayloadType | None, declared: str | None = None) -> str:
    """Find the member, by its name in JSON, that takes a plain text where nothing else is required.

    Args:
        payload: the payload; None with a hand-written schema.
        declared: the Python name of the field; None for the only required one, or else the only one.

    Raises TextMemberError.
    """
    if payload is None:
        raise TextMemberError("its payload has a hand-written schema, whose fields are unknown")
    fields = members(payload.record)
    texts = [name for name, field in fields.items() if _is_text(field)]
    required = [name for name, field in fields.items() if not field.optional]
    if declared is None:
        wanted = required or list(fields)
        if len(wanted) != 1 or wanted[0] not in texts:
            named = ", ".join(required or fields) or "no field"
            message = f"{payload.root} {'needs' if required else 'has'} {named}, and a chat has one text"
            better = texts if set(required) <= set(texts[:1]) else []
            raise TextMemberError(message, f"openai: {fields[better[0]].name}" if better else "")
        return wanted[0]
    found = next((name for name, field in fields.items() if field.name == declared), None)
    if found not in texts:
        suggestion = ", ".join(fields[name].name for name in texts)
        raise TextMemberError(f"{payload.root} has no text field {declared}", suggestion)
    others = [name for name in required if name != found]
    if others:
        message = f"{payload.root} needs {', '.join(others)} as well, which a chat does not have"
        raise TextMemberError(message, "give it a default")
    return found


def _is_text(field: Field) -> bool:
    """Check for a single text without a fixed list of values."""
    of = field.type
    plain = isinstance(of, Scalar) and of.kind is ScalarKind.STR and not of.choices
    return plain and field.count is Count.ONE


class _Writer:
    def __init__(self, payload: PayloadType) -> None:
        self._payload = payload
        uses = Counter(
            field.type.name
            for record in payload.records
            for field in record.fields
            if isinstance(field.type, RecordType)
        )
        self._shared = {name for name, count in uses.items() if count > 1}

    def build_root(self) -> dict[str, Any]:
        defs = {each.name: self._record(each) for each in self._payload.records if each.name in self._shared}
        return self._record(self._payload.record) | ({"$defs": defs} if defs else {})

    def _record(self, record: RecordType) -> dict[str, Any]:
        known = members(record)
        found: dict[str, Any] = {"type": "object"}
        if record.doc:
            found["description"] = record.doc
        found["properties"] = {name: self._build_field(field) for name, field in known.items()}
        required = [name for name, field in known.items() if not field.optional]
        return found | ({"required": required} if required else {}) | {"additionalProperties": False}

    def _build_field(self, field: Field) -> dict[str, Any]:
        found = self._build_type(field.type)
        if field.repeated:
            found = {"type": "array", "items": found}
            found |= {"minItems": field.minimum} if field.minimum else {}
            found |= {} if field.maximum is None else {"maxItems": field.maximum}
        elif field.count is Count.OPTIONAL:
            found = {"anyOf": [found, {"type": "null"}]}
        words = [field.doc, found.get("description", "")]
        if field.doc:
            found["description"] = " ".join(filter(None, words))
        if field.default is not None and field.default.factory is None and field.count is Count.ONE:
            found |= _default(field)
        return found

    def _build_type(self, of: Type) -> dict[str, Any]:
        if not isinstance(of, RecordType):
            return schema(of)
        return {"$ref": f"#/$defs/{of.name}"} if of.name in self._shared else self._record(of)


def _default(field: Field) -> dict[str, Any]:
    """Return the value of a scalar that is left out."""
    of = field.type
    if isinstance(of, RecordType) or field.default is None:
        return {}
    chosen = {value: written for written, value in of.choices}
    held = field.default.value
    written = chosen.get(held) if chosen else WRITERS[of.kind](held)
    return {} if written is None else {"default": value(of, written)}
