"""Checks keyword values of a JSON Schema: valid for the meta-schema, and without free text.

Names of members and listed values are left to ``check_wording``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.hygiene.json.tree import KEYWORDS, Holds
from agentserver.hygiene.slug import BUDGET, count_words, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
FORMATS: Final = frozenset(
    (
        *(
            "date",
            "time",
            "date-time",
            "duration",
            "email",
            "idn-email",
            "hostname",
            "idn-hostname",
            "ipv4",
            "ipv6",
        ),
        *("uri", "uri-reference", "uri-template", "iri", "iri-reference", "uuid", "json-pointer"),
        *("relative-json-pointer", "regex"),
    )
)
ENCODINGS: Final = frozenset({"7bit", "8bit", "binary", "quoted-printable", "base16", "base32", "base64"})
_MEDIA: Final = re.compile(
    r"(?:application|audio|font|image|message|model|multipart|text|video)/[a-z0-9][a-z0-9.+-]{0,40}"
)
_LITERALS: Final = re.compile(
    r"\[(?:\\.|[^\]\\]){0,256}+\]|\\.|[^A-Za-z0-9]"
)  # a longer class is read as text
"""Everything in a pattern that is not a literal letter or digit."""


class Form(NamedTuple):
    """Predicate and name of a keyword value's form."""

    has: Callable[[Any], bool]
    said: str


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return texts and len(set(value)) == len(value) and all(readable(each, spaces=False) for each in value)


def _dependent(value: Any) -> bool:
    return isinstance(value, dict) and _names([*value]) and all(map(_names, value.values()))


def _types(value: Any) -> bool:
    several = isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
    return isinstance(value, str) or (several and len(set(value)) == len(value))


def _media(value: Any) -> bool:
    return isinstance(value, str) and _MEDIA.fullmatch(value) is not None and count_words(value) <= BUDGET * 2


def _is_wordless(value: Any) -> bool:
    """Check that a pattern has no more literal text than a listed value may."""
    return not isinstance(value, str) or count_words(_LITERALS.sub("-", value)) <= BUDGET * 2


def _text(value: Any) -> bool:
    return isinstance(value, str)


_FLAG: Final = Form(lambda value: isinstance(value, bool), "true or false")
_NUMBER: Final = Form(_number, "a number")
_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FLAGS: Final = ("deprecated", "readOnly", "writeOnly", "uniqueItems")
_DATA: Final[Mapping[str, Form]] = {
    **dict.fromkeys(("title", "description", "$comment", "$id", "$schema", "$ref"), Form(_text, "a text")),
    **dict.fromkeys(_FLAGS, _FLAG),
    **dict.fromkeys(_LIMITS, _NUMBER),
    "examples": Form(lambda value: isinstance(value, list), "a list"),
    "type": Form(_types, "a type, or a list of different types"),
    "format": Form(lambda value: isinstance(value, str) and value in FORMATS, "a format of JSON Schema"),
    "multipleOf": Form(lambda value: _number(value) and value > 0, "a number above zero"),
    "contentEncoding": Form(
        lambda value: isinstance(value, str) and value in ENCODINGS, "an encoding of MIME"
    ),
    "contentMediaType": Form(_media, "a media type"),
    "pattern": Form(_is_wordless, f"an expression that spells at most {BUDGET * 2} words"),
    "required": Form(_names, "a list of different names"),
    "dependentRequired": Form(_dependent, "lists of different names by name"),
    "enum": Form(lambda value: isinstance(value, list) and bool(value), "a list of values"),
    "minContains": Form(lambda value: type(value) is int and value >= 0, "a whole number"),
}
_HELD: Final[Mapping[Holds, Form]] = {
    Holds.SCHEMA: Form(lambda value: isinstance(value, dict | bool), "a schema"),
    Holds.SCHEMAS: Form(lambda value: isinstance(value, list) and bool(value), "a list of schemas"),
    Holds.NAMED: Form(lambda value: isinstance(value, dict), "schemas by name"),
}


def ill_formed(schema: Mapping[str, Any], dialect: str) -> Iterator[str]:
    """Yield the faults in the values of a schema's keywords; unknown keywords are skipped."""
    for keyword, value in schema.items():
        holds = KEYWORDS.get(keyword)
        form = _DATA.get(keyword) or (_HELD.get(holds) if holds else None)
        if keyword == "items" and dialect == DRAFT_7 and isinstance(value, list) and value:
            continue
        if form is not None and not form.has(value):
            yield f"{keyword} must be {form.said}"
    members, needed = schema.get("properties"), schema.get("required")
    if (
        not isinstance(members, dict)
        or not isinstance(needed, list)
        or schema.get("additionalProperties") is not False
    ):
        return
    if any(isinstance(name, str) and name not in members for name in needed):
        yield 'requires a member that "properties" does not declare'
