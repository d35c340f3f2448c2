"""The JSON Schema (2020-12) of a payload class, from its field table.

A schema takes what :func:`agentserver.payload.json.elements.element_of` takes, except for rules that JSON Schema
cannot state: characters that XML has not, days that no calendar has, bounds of moments, octets and decimal texts,
steps of decimals.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from agentserver.payload.fields.field_table import Count, FieldKind, RecordType
from agentserver.payload.fields.lexical import WRITERS
from agentserver.payload.json.scalars import schema as scalar_schema
from agentserver.payload.json.scalars import value as scalar_value
from agentserver.payload.json.values import JsonFault, JsonRefusal, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Field, PayloadType, Type

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def without_table(codec: Codec) -> JsonRefusal | None:
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
        return without_table(codec) or refusal()
    return {"$schema": DIALECT} | _Writer(codec.described).root()


def members(record: RecordType) -> Mapping[str, Field]:
    """Return the fields of a record by their name in JSON.

    It is the name in XML; an attribute that is called as an element of the same record has an ``@`` before it.
    """
    elements = {field.xml for field in record.fields_at(FieldKind.ELEMENT)}
    return {
        f"@{field.xml}" if field.place is FieldKind.ATTRIBUTE and field.xml in elements else field.xml: field
        for field in record.fields
    }


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

    def root(self) -> dict[str, Any]:
        defs = {each.name: self._record(each) for each in self._payload.records if each.name in self._shared}
        return self._record(self._payload.record) | ({"$defs": defs} if defs else {})

    def _record(self, record: RecordType) -> dict[str, Any]:
        known = members(record)
        found: dict[str, Any] = {"type": "object"}
        if record.doc:
            found["description"] = record.doc
        found["properties"] = {name: self._field(field) for name, field in known.items()}
        required = [name for name, field in known.items() if not field.optional]
        return found | ({"required": required} if required else {}) | {"additionalProperties": False}

    def _field(self, field: Field) -> dict[str, Any]:
        found = self._type(field.type)
        if field.repeated:
            found = {"type": "array", "items": found}
            found |= {"minItems": field.least} if field.least else {}
            found |= {} if field.most is None else {"maxItems": field.most}
        elif field.count is Count.OPTIONAL:
            found = {"anyOf": [found, {"type": "null"}]}
        words = [field.doc, found.get("description", "")]
        if field.doc:
            found["description"] = " ".join(filter(None, words))
        if field.default is not None and field.default.factory is None and field.count is Count.ONE:
            found |= _default(field)
        return found

    def _type(self, of: Type) -> dict[str, Any]:
        if not isinstance(of, RecordType):
            return scalar_schema(of)
        return {"$ref": f"#/$defs/{of.name}"} if of.name in self._shared else self._record(of)


def _default(field: Field) -> dict[str, Any]:
    """Return the value of a scalar that is left out."""
    of = field.type
    if isinstance(of, RecordType) or field.default is None:
        return {}
    chosen = {value: written for written, value in of.choices}
    held = field.default.value
    written = chosen.get(held) if chosen else WRITERS[of.kind](held)
    return {} if written is None else {"default": scalar_value(of, written)}
