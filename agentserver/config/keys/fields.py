"""The types of single values in ``organism.yaml``, and the model that all others derive from.

Owns what a name, a path, a dotted path and a time look like. Refuses to know the keys that hold them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic_core import core_schema

from agentserver.characters.table import is_all_visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

MAX_NAME = 128
MAX_DESCRIPTION = 500
DAY = 86_400.0
DOTTED_PATTERN = r"^[^\W\d]\w*(\.[^\W\d]\w*)+$"
NO_PATH = 'a dotted path such as "listeners.greeter.greet" was expected'

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)")
_DURATION_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,6})? ?(ms|s|m|h|d)$|\$\{"
_SIZE_PATTERN = r"^[0-9]{1,9} ?(kB|MB|GB|TB)$|\$\{"
_SIZE = re.compile(r"([0-9]{1,9}) ?(kB|MB|GB|TB)")
_SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class UnitError(ValueError):
    """A text is no number with a unit. The words say what is one; the reader of the file adds what stands there."""


def _seconds(value: Any) -> Any:
    """``"500ms"``, ``"30s"``, ``"2m"``, ``"1h"`` as seconds; anything else as it is."""
    said = 'a time is a number of seconds, or text such as "500ms", "30s", "2m", "1h", "7d"'
    return _measured(value, _DURATION, _UNITS, said)


def _bytes(value: Any) -> Any:
    """A size in bytes."""
    return _measured(value, _SIZE, _SIZES, 'a size is a number of bytes, or text such as "500MB" or "10GB"')


def _measured(value: Any, form: re.Pattern[str], units: Mapping[str, float], mistake: str) -> Any:
    """A number and its unit as a number of the smallest one. Raises UnitError with ``mistake``."""
    if not isinstance(value, str):
        return value
    match = form.fullmatch(value)
    if match is None:
        raise UnitError(mistake)
    return (float if "." in match[1] else int)(match[1]) * units[match[2]]


def _unreserved(name: str) -> str:
    if name.casefold() == "system" or name.casefold().startswith("system."):
        raise ValueError(f'"{name}" is reserved: "system" and "system.*" are the server\'s own')
    return name


def _one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    if not is_all_visible(text):
        raise ValueError("must be one line without control or invisible characters")
    return text


def listed(value: Any) -> Any:
    """One text as a list of one; anything else as it is."""
    return [value] if isinstance(value, str) else value


def absent(value: Any) -> Any:
    """A key without a value is the same as an empty list."""
    return [] if value is None else value


def alone(value: Any) -> Any:
    """A dotted path alone is that of something of which nothing else is said."""
    if value is None or isinstance(value, dict):
        return value
    if not isinstance(value, str) or not re.search(DOTTED_PATTERN, value):
        raise ValueError(NO_PATH)
    return {"use": value}


def given(value: Any) -> Any:
    """A key of which nothing would be the most lenient meaning says what it says, or stays away."""
    if value is None:
        raise ValueError("must not be empty: leave the key out, or give it a value")
    return value


@dataclass(frozen=True, slots=True)
class Spelling:
    """Marker that holds a text to a pattern.

    Args:
        pattern: regular expression that editors and pydantic read alike.
        message: the error message for a text that does not match; it begins with a verb.
    """

    pattern: str
    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check the pattern after the other constraints of the text."""
        matching = core_schema.str_schema(pattern=self.pattern)
        spelled = core_schema.custom_error_schema(
            matching, custom_error_type="spelling", custom_error_message=self.message
        )
        return core_schema.chain_schema([handler(source), spelled])

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Show the pattern to editors."""
        return {**handler(schema), "pattern": self.pattern}


Name: TypeAlias = Annotated[
    str,
    Field(max_length=MAX_NAME),
    Spelling(
        r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$",
        "may hold letters, digits and _ - . only, and begins with a letter, a digit or _",
    ),
]
ListenerName: TypeAlias = Annotated[Name, AfterValidator(_unreserved)]
Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_DESCRIPTION), AfterValidator(_one_line)]
Dotted: TypeAlias = Annotated[
    str,
    Field(max_length=300, examples=["listeners.greeter.greet"]),
    Spelling(DOTTED_PATTERN, NO_PATH),
]
RelativePath: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_one_line)]
Variable: TypeAlias = Annotated[
    str,
    Field(max_length=128),
    Spelling(r"^[A-Za-z_][A-Za-z0-9_]*$", "is the name of an environment variable: letters, digits and _"),
]
_Text = Annotated[str, Field(pattern=_DURATION_PATTERN)]
_UpToDay = Annotated[float, Field(gt=0, le=DAY)]
_MaybeNone = Annotated[float, Field(ge=0, le=DAY)]
Deadline: TypeAlias = Annotated[_UpToDay, BeforeValidator(_seconds, json_schema_input_type=_UpToDay | _Text)]
Drain: TypeAlias = Annotated[_MaybeNone, BeforeValidator(_seconds, json_schema_input_type=_MaybeNone | _Text)]
Retention: TypeAlias = Annotated[
    Annotated[float, Field(gt=0, le=100 * 365 * DAY)],
    BeforeValidator(
        _seconds, json_schema_input_type=Annotated[float, Field(gt=0, le=100 * 365 * DAY)] | _Text
    ),
]
_Journal = Annotated[int, Field(ge=1 << 20, le=1 << 46)]
_SizeText = Annotated[str, Field(pattern=_SIZE_PATTERN)]
Size: TypeAlias = Annotated[_Journal, BeforeValidator(_bytes, json_schema_input_type=_Journal | _SizeText)]
_Memory = Annotated[int, Field(ge=96 * 10**6, le=1 << 40)]
_Body = Annotated[int, Field(ge=1000, le=10**9)]
Body: TypeAlias = Annotated[_Body, BeforeValidator(_bytes, json_schema_input_type=_Body | _SizeText)]
Memory: TypeAlias = Annotated[_Memory, BeforeValidator(_bytes, json_schema_input_type=_Memory | _SizeText)]
_DottedList = Annotated[list[Dotted], Field(min_length=1, max_length=100)]
DottedList: TypeAlias = Annotated[
    _DottedList, BeforeValidator(listed, json_schema_input_type=Dotted | _DottedList)
]
_Names = Annotated[list[Name], Field(max_length=1000)]
Peers: TypeAlias = Annotated[_Names, BeforeValidator(absent, json_schema_input_type=_Names | None)]


class Strict(BaseModel):
    """No unknown keys, no conversions, no changes, no values in error messages."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True
    )


@dataclass(frozen=True, slots=True)
class Declared:
    """Marker that validates a mapping as the frozen dataclass that it annotates.

    The metadata of the dataclass's fields are arguments of ``pydantic.Field``: bounds and ``description``. A ``float``
    is a time, in seconds or as text with a unit.
    """

    def __get_pydantic_core_schema__(self, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Derive a model of the mapping, and build the dataclass from its values."""
        hints = get_type_hints(source)
        keys = {
            each.name: (_key_type(hints[each.name], each.metadata), each.default) for each in fields(source)
        }
        model = create_model(f"{source.__name__}Entry", __base__=Strict, __doc__=source.__doc__, **keys)  # type: ignore[call-overload]
        return core_schema.no_info_after_validator_function(
            lambda entry: source(**dict(entry)), handler.generate_schema(model)
        )


def _key_type(hint: Any, metadata: Mapping[str, Any]) -> Any:
    """The type of a key that a dataclass declares."""
    described, bounds = Field(description=metadata["description"]), {**metadata}
    del bounds["description"]
    if get_origin(hint) is Literal:
        return Annotated[hint, BeforeValidator(given, json_schema_input_type=hint), described]
    bounded = Annotated[hint, Field(**bounds)]
    if hint is float:
        return Annotated[
            bounded, BeforeValidator(_seconds, json_schema_input_type=bounded | _Text), described
        ]
    return Annotated[bounded, described]
