"""Validates documents against the models, and formats every mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from agentserver.config.findings import did_you_mean, index_by_name
from agentserver.config.keys.fields import DOTTED_PATTERN, NO_PATH, UnitError, expand_path
from agentserver.config.keys.intents import HandoffsEntry
from agentserver.config.keys.models import (
    IncludedFile,
    Journal,
    LifespanEntry,
    ListenerEntry,
    OrganismFile,
    expand_journal,
)
from agentserver.core.blueprint import Limits
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from agentserver.config.findings import Loc, Mistakes, SourceSpan
    from agentserver.config.yaml.document import Document


@dataclass(frozen=True, slots=True)
class DeclaredListener:
    """Entry of a listener and its place.

    Args:
        document: that contains it.
        index: in the list of the document.
        entry: the valid part; a faulty name or description is replaced, other faulty keys are left out.
        faulty: the keys with reported mistakes; checks skip them.
        at: the path of an entry outside the list of listeners.
    """

    document: Document
    index: int
    entry: ListenerEntry
    faulty: frozenset[str] = frozenset()
    at: Loc = ()

    def locate(self, *keys: str | int, missing: bool = False) -> SourceSpan:
        """Locate a value of the entry (see ``Document.where``)."""
        return self.document.locate((*(self.at or ("listeners", self.index)), *keys), missing=missing)


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class DeclaredEntry(Generic[M]):
    """Valid entry of a list, and its place.

    Args:
        document: that contains it.
        key: of the list.
        index: in the list.
        entry: as its model reads it.
    """

    document: Document
    key: str
    index: int
    entry: M

    def locate(self, *keys: str | int, missing: bool = False) -> SourceSpan:
        """Locate a value of the entry, or the entry (see ``Document.where``)."""
        return self.document.locate((self.key, self.index, *keys), missing=missing)


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """Valid parts of one document.

    Args:
        bad: the beginnings of the places with mistakes, at most three keys deep.
    """

    document: Document
    name: str
    lifespan: LifespanEntry | None
    listeners: tuple[DeclaredListener, ...]
    limits: Mapping[str, Any]
    journal: Journal | None = None
    handoffs: HandoffsEntry | None = None
    bad: frozenset[Loc] = frozenset()

    @property
    def faulty(self) -> frozenset[str]:
        """The keys with mistakes."""
        return frozenset(str(loc[0]) for loc in self.bad if loc)

    def declares(self, key: str) -> bool:
        """Check for a key without mistakes."""
        return key in self.document.data and key not in self.faulty

    def list_entries(self, key: str, model: type[M]) -> list[DeclaredEntry[M]]:
        """List the valid entries of a list; mistakes in the others are reported already."""
        found = None if (key,) in self.bad else self.document.data.get(key)
        return [
            DeclaredEntry(self.document, key, at, model.model_validate(data))
            for at, data in enumerate(found if isinstance(found, list) else ())
            if not any(loc[:2] == (key, at) for loc in self.bad)
        ]

    def list_named(self, key: str, model: type[M], report: Mistakes) -> list[DeclaredEntry[M]]:
        """List the valid entries of a list whose entries have names. Reports a repeated name and keeps the first."""
        entries = self.list_entries(key, model)
        models: Sequence[Any] = [each.entry for each in entries]
        found = index_by_name(models, lambda at: entries[at].locate("name"), report)
        return [entries[at] for at, _ in found.values()]


def parse(document: Document, model: type[IncludedFile], report: Mistakes) -> ParsedDocument:
    """Report every mistake of shape, and return the valid parts."""
    try:
        model.model_validate(document.data)
        faults: list[ErrorDetails] = []
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
    known = KnownKeys(model)
    for fault in faults:
        _report_fault(document, known, fault, report)
    bad = {fault["loc"][:3] for fault in faults}
    faulty = {loc[0] for loc in bad if loc}
    listeners = tuple(_iter_usable_listeners(document, bad))
    return ParsedDocument(
        document,
        str(document.data.get("name")),
        _find_sound_lifespan(document, faulty),
        listeners,
        _build_sound_limits(document, bad),
        _find_sound_journal(document, faulty),
        _find_sound_handoffs(document, faulty),
        frozenset(bad),
    )


def merge_limits(files: Iterable[ParsedDocument], report: Mistakes) -> Limits:
    """Merge the limits of all files; each may be set once."""
    values: dict[str, Any] = {}
    first: dict[str, SourceSpan] = {}
    for parsed in files:
        for key, value in parsed.limits.items():
            span = parsed.document.locate(("limits", key))
            if key in first:
                report.add_error(
                    ConfigCode.REPEATED, span, f"is already set at {first[key].file}:{first[key].line}"
                )
            first.setdefault(key, span)
            values[key] = value
    return Limits(**values)


def _iter_usable_listeners(document: Document, bad: set[Loc]) -> Iterable[DeclaredListener]:
    listeners = document.data.get("listeners")
    if not isinstance(listeners, list):
        return
    for i, data in enumerate(listeners):
        faulty = {str(loc[2]) for loc in bad if loc[:2] == ("listeners", i) and len(loc) > 2}  # noqa: PLR2004 - a key
        if isinstance(data, dict):
            stand_in = {"name": f"listener-{i}", "description": "faulty"}
            sound = {key: value for key, value in data.items() if key not in faulty}
            yield DeclaredListener(
                document, i, ListenerEntry.model_validate({**stand_in, **sound}), frozenset(faulty)
            )


def _build_sound_limits(document: Document, bad: set[Loc]) -> Mapping[str, Any]:
    if ("limits",) in bad:
        return {}
    faulty = {loc[1] for loc in bad if loc[:1] == ("limits",)}
    sound = {key: value for key, value in document.data.get("limits", {}).items() if key not in faulty}
    limits = IncludedFile.model_validate({"limits": sound}).limits
    return {key: getattr(limits, key) for key in sound}


def _find_sound_journal(document: Document, faulty: set[str | int]) -> Journal | None:
    data = expand_journal(document.data.get("journal"))
    if data is None or "engine" in document.data or "journal" in faulty:
        return None
    return Journal.model_validate(data)


def _find_sound_handoffs(document: Document, faulty: set[str | int]) -> HandoffsEntry | None:
    if "handoffs" in faulty:
        return None
    return HandoffsEntry.model_validate(document.data.get("handoffs", {}))


def _find_sound_lifespan(document: Document, faulty: set[str | int]) -> LifespanEntry | None:
    data = None if "lifespan" in faulty else expand_path(document.data.get("lifespan"))
    return None if data is None else LifespanEntry.model_validate(data)


def _suggest_form(document: Document, known: KnownKeys, fault: ErrorDetails) -> str:
    """Suggest how to write a list or a mapping in place of another value; empty if that is unknown."""
    loc = fault["loc"]
    text = document.show(loc)
    expected = _EXPECTED.get(fault["type"])
    if expected == "a list" and isinstance(document.find_value(loc), dict):
        return "each entry begins with a dash and a space"
    if loc == ("provenance",) and text:
        return f"{{{'policy' if '.' in text else 'mode'}: {text}}} is one"
    keys = known.list_keys_at(loc) if expected == "a mapping of keys" else ()
    return f"known here: {', '.join(sorted(keys))}" if keys else ""


def _report_fault(document: Document, known: KnownKeys, fault: ErrorDetails, report: Mistakes) -> None:
    loc = fault["loc"]
    if loc[:1] == ("provenance",) and len(loc) > 1:
        from agentserver.provenance.policy.model import describe_fault  # whose model it is

        place, message = describe_fault({**fault, "loc": loc[1:]})
        report.add_error(find_code(fault), document.locate((*loc[:1], *place)), message)
        return
    if fault["type"] == "extra_forbidden":
        message, suggestion = known.describe_unknown(loc)
    else:
        message, suggestion = describe(fault, document.read_as.get(loc), document.show(loc))
        suggestion = suggestion or _suggest_form(document, known, fault)
    report.add_error(
        find_code(fault), document.locate(loc, missing=fault["type"] == "missing"), message, suggestion
    )


class KnownKeys:
    """Index of the keys that each mapping of a document may have, from the JSON Schema of its model."""

    def __init__(self, model: type[IncludedFile]) -> None:
        self._model = model

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        """The schema of the whole document, which takes a quarter of a second."""
        return self._model.model_json_schema()

    def describe_unknown(self, loc: Loc) -> tuple[str, str]:
        """Return message and suggestion for an unknown key at this path."""
        key = str(loc[-1])
        if len(loc) == 1 and key in list_keys(OrganismFile) and key not in list_keys(self._model):
            return f'"{key}" belongs in the main file', ""
        known = self.list_keys_at(loc[:-1]) if len(loc) > 1 else list_keys(self._model)
        return f'unknown key "{key}"', did_you_mean(key, known) or f"known here: {', '.join(sorted(known))}"

    def list_keys_at(self, loc: Loc) -> set[str]:
        """List the keys of the mapping at a path."""
        definitions = self._schema.get("$defs", {})
        found = _resolve(self._schema, definitions)
        for part in loc:
            below = [
                each["items"] if isinstance(part, int) else _build_property(each, part)
                for each in found
                if ("items" in each) == isinstance(part, int)
            ]
            found = [one for each in below for one in _resolve(each, definitions)]
        return {key for each in found for key in each.get("properties", {})}


def _build_property(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    mappings = [schema.get("additionalProperties", {}), *schema.get("patternProperties", {}).values()]
    mapping = next((each for each in mappings if isinstance(each, dict) and each), {})
    found: Mapping[str, Any] = schema.get("properties", {}).get(key, mapping)
    return found


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the alternatives of a schema, with references followed."""
    if "$ref" in schema:
        return _resolve(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives is None:
        return [schema]
    return [one for each in alternatives for one in _resolve(each, definitions)]


def list_keys(model: type[BaseModel]) -> list[str]:
    """List the keys of a model as written in YAML."""
    return [info.alias or name for name, info in model.model_fields.items()]


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "dataclass_type": "a mapping of keys",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of less digits",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "date_type": "a date such as 2026-01-31",
    "date_parsing": "a date such as 2026-01-31",
    "date_from_datetime_parsing": "a date such as 2026-01-31",
    "datetime_type": "a date and time such as 2026-01-31T12:00:00Z",
    "datetime_parsing": "a date and time such as 2026-01-31T12:00:00Z",
    "datetime_from_date_parsing": "a date and time such as 2026-01-31T12:00:00Z",
    "time_type": "a time of day such as 12:00:00",
    "time_parsing": "a time of day such as 12:00:00",
    "time_delta_type": "a duration such as PT30S, or a number of seconds",
    "time_delta_parsing": "a duration such as PT30S, or a number of seconds",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "mapping_type": "a mapping of keys",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
    "url_type": "an address such as https://desk.example",
    "url_parsing": "an address such as https://desk.example",
    "path_type": "a path",
    "bytes_type": "text",
    "none_required": "nothing",
}

_CODES = {
    "missing": ConfigCode.MISSING,
    "missing_argument": ConfigCode.MISSING,
    "missing_keyword_only_argument": ConfigCode.MISSING,
    "extra_forbidden": ConfigCode.KEY,
    "unexpected_keyword_argument": ConfigCode.KEY,
}
"""The codes of those types of pydantic that are about keys; all others are about values."""

_TEXTS = {
    "missing": "is missing",
    "multiple_of": "must be a multiple of {multiple_of:g}",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "value_error": "{error}",
    "assertion_error": "{error}",
    "string_unicode": "contains half a character: an escape from D800 to DFFF is only valid in a pair",
    "string_pattern_mismatch": "does not match its pattern",
    "string_too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters long",
    "too_short": "must hold at least {min_length} entries",
    "too_long": "must hold at most {max_length} entries",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:.10g}",
}


def describe(fault: ErrorDetails, read_as: str | None = None, value: str = "") -> tuple[str, str]:
    """Return message and suggestion for one error of pydantic.

    Args:
        fault: the error.
        read_as: how YAML reads the value, when it is an unquoted scalar that is not text.
        value: the value, when it is text that may be repeated.
    """
    kind, context = fault["type"], fault.get("ctx", {})
    instead = f', not "{value}"' if value else ""
    if kind in _EXPECTED:
        reading = f"; YAML reads this as {read_as}" if read_as else instead
        suggestion = ""
        if read_as and kind == "string_type":
            suggestion = "write a text" if read_as == "nothing" else "quote it"
        if value and _EXPECTED[kind] == "a list":
            suggestion = f"[{value}] is one"
        if value.isdecimal() and "number" in _EXPECTED[kind]:
            suggestion = f"{value} without quotation marks is one"
        return f"{_EXPECTED[kind]} was expected{reading}", suggestion
    if kind == "spelling":
        return f"{fault['msg']}{instead}", _suggest_path(value) if fault["msg"] == NO_PATH else ""
    if kind in {"literal_error", "enum"}:
        near = did_you_mean(value, re.findall(r"'([^']*)'", context["expected"]))
        return f"must be {context['expected']}{instead}", near
    if kind in _TEXTS:
        units = isinstance(context.get("error"), UnitError)
        return f"{_TEXTS[kind].format_map(context)}{instead if units else ''}", ""
    return f"does not fit its type ({kind.replace('_', ' ')}){instead}", ""


def find_code(fault: ErrorDetails) -> ConfigCode:
    """Return the code for an error type of pydantic."""
    return _CODES.get(fault["type"], ConfigCode.VALUE)


def _suggest_path(value: str) -> str:
    """Suggest a correction of a path in the notation of other tools."""
    dotted = re.sub(r"[:/#]+", ".", value.removesuffix(".py"))
    return f'did you mean "{dotted}"?' if re.fullmatch(DOTTED_PATTERN, dotted) else ""
