"""Types of single values in ``organism.yaml``, and the base of all models."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_origin,
    get_type_hints,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WrapValidator,
    create_model,
)
from pydantic_core import core_schema

from agentserver.characters.table import is_all_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidatorFunctionWrapHandler
    from pydantic_core import CoreSchema

T = TypeVar("T")

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
    """Error for a text that is not a number with a unit."""


def _convert_seconds(value: Any) -> Any:
    """Convert ``"500ms"``, ``"30s"``, ``"2m"``, ``"1h"`` to seconds; return anything else unchanged."""
    expectation = 'a time is a number of seconds, or text such as "500ms", "30s", "2m", "1h", "7d"'
    return _convert_unit(value, _DURATION, _UNITS, expectation)


def _convert_bytes(value: Any) -> Any:
    """Convert a size to bytes."""
    return _convert_unit(
        value, _SIZE, _SIZES, 'a size is a number of bytes, or text such as "500MB" or "10GB"'
    )


def _convert_unit(value: Any, form: re.Pattern[str], units: Mapping[str, float], mistake: str) -> Any:
    """Convert a number with a unit to the smallest unit. Raises UnitError with ``mistake``."""
    if not isinstance(value, str):
        return value
    match = form.fullmatch(value)
    if match is None:
        raise UnitError(mistake)
    return (float if "." in match[1] else int)(match[1]) * units[match[2]]


def _refuse_reserved(name: str) -> str:
    if name.casefold() == "system" or name.casefold().startswith("system."):
        raise ValueError(f'"{name}" is reserved: "system" and "system.*" are the server\'s own')
    return name


def _check_one_line(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    if not is_all_visible(text):
        raise ValueError("must be one line without control or invisible characters")
    return text


def wrap_text(value: Any) -> Any:
    """Convert a text to a list of one item; return anything else unchanged."""
    return [value] if isinstance(value, str) else value


def none_as_empty(value: Any) -> Any:
    """Convert None to an empty list."""
    return [] if value is None else value


def expand_path(value: Any) -> Any:
    """Convert a dotted path to a mapping with ``use``."""
    if value is None or isinstance(value, dict):
        return value
    if not isinstance(value, str) or not re.search(DOTTED_PATTERN, value):
        raise ValueError(NO_PATH)
    return {"use": value}


def refuse_none(value: Any) -> Any:
    """Refuse None for a key whose absence would be the most lenient setting."""
    if value is None:
        raise ValueError("must not be empty: remove the key, or set a value")
    return value


@dataclass(frozen=True, slots=True)
class TextPattern:
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
    TextPattern(
        r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$",
        "may hold letters, digits and _ - . only, and begins with a letter, a digit or _",
    ),
]
ListenerName: TypeAlias = Annotated[Name, AfterValidator(_refuse_reserved)]
Line: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_DESCRIPTION), AfterValidator(_check_one_line)
]
Dotted: TypeAlias = Annotated[
    str,
    Field(max_length=300, examples=["listeners.greeter.greet"]),
    TextPattern(DOTTED_PATTERN, NO_PATH),
]
RelativePath: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=1000), AfterValidator(_check_one_line)
]
Variable: TypeAlias = Annotated[
    str,
    Field(max_length=128),
    TextPattern(r"^[A-Za-z_][A-Za-z0-9_]*$", "is the name of an environment variable: letters, digits and _"),
]


@dataclass(frozen=True, slots=True)
class UnitText:
    """Marker of a number that may be a text with a unit.

    Args:
        convert: converts the text.
        pattern: of the text, for editors.
    """

    convert: Callable[[Any], Any]
    pattern: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Convert a text before the number is checked."""
        number = handler(source)
        either = core_schema.union_schema([number, core_schema.str_schema(pattern=self.pattern)])
        return core_schema.no_info_before_validator_function(
            self.convert, number, json_schema_input_schema=either
        )


@dataclass(frozen=True, slots=True)
class RefuseNone:
    """Marker of a key that may be left out, and may not be empty: its absence would be the most lenient setting."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse a written None; editors are shown the value alone."""
        found = handler(source)
        shown = found["schema"] if found["type"] == "nullable" else found
        return core_schema.no_info_before_validator_function(
            refuse_none, found, json_schema_input_schema=shown
        )


TIME: Final = UnitText(_convert_seconds, _DURATION_PATTERN)
SIZE: Final = UnitText(_convert_bytes, _SIZE_PATTERN)
Deadline: TypeAlias = Annotated[float, Field(gt=0, le=DAY), TIME]
Drain: TypeAlias = Annotated[float, Field(ge=0, le=DAY), TIME]
Retention: TypeAlias = Annotated[float, Field(gt=0, le=100 * 365 * DAY), TIME]
Size: TypeAlias = Annotated[int, Field(ge=1 << 20, le=1 << 46), SIZE]
Body: TypeAlias = Annotated[int, Field(ge=1000, le=10**9), SIZE]
Memory: TypeAlias = Annotated[int, Field(ge=96 * 10**6, le=1 << 40), SIZE]
Given: TypeAlias = Annotated[T | None, RefuseNone()]
_DottedList = Annotated[list[Dotted], Field(min_length=1, max_length=100)]
DottedList: TypeAlias = Annotated[
    _DottedList, BeforeValidator(wrap_text, json_schema_input_type=Dotted | _DottedList)
]
_Names = Annotated[list[Name], Field(max_length=1000)]
Peers: TypeAlias = Annotated[_Names, BeforeValidator(none_as_empty, json_schema_input_type=_Names | None)]


class Strict(BaseModel):
    """Base of all models: no unknown keys, no conversions, no changes, no values in error messages."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True
    )


V = TypeVar("V")


def build_value(kind: type[V], entry: BaseModel, **computed: Any) -> V:
    """Build the value of an organism from the keys of an entry that have the names of its fields.

    A list becomes a tuple; a key without a value leaves the default of the field.

    Args:
        kind: frozen dataclass.
        entry: as checked.
        computed: fields that are not just the value of a key.
    """
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]  # a dataclass
        value = getattr(entry, each.name, MISSING)
        if value is not MISSING and (value is not None or each.default is MISSING):
            values[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**{**values, **computed})


@dataclass(frozen=True, slots=True)
class DataclassKeys:
    """Marker that validates a mapping as the frozen dataclass that it annotates.

    The metadata of the dataclass's fields are arguments of ``pydantic.Field``: bounds and ``description``. A ``float``
    is a time, in seconds or as text with a unit.
    """

    def __get_pydantic_core_schema__(self, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Derive a model of the mapping, and build the dataclass from its values."""
        hints = get_type_hints(source)
        keys = {
            each.name: (_find_key_type(hints[each.name], each.metadata), each.default)
            for each in fields(source)
        }
        model = create_model(f"{source.__name__}Entry", __base__=Strict, __doc__=source.__doc__, **keys)  # type: ignore[call-overload]
        return core_schema.no_info_after_validator_function(
            lambda entry: source(**dict(entry)), handler.generate_schema(model)
        )


def _find_key_type(hint: Any, metadata: Mapping[str, Any]) -> Any:
    """Return the type of a key that a dataclass declares."""
    described, bounds = Field(description=metadata["description"]), {**metadata}
    del bounds["description"]
    if get_origin(hint) is Literal:
        return Annotated[hint, RefuseNone(), described]
    bounded = Annotated[hint, Field(**bounds)]
    return Annotated[bounded, TIME, described] if hint is float else Annotated[bounded, described]


EXCLUSIVE: Final = 0
"""The number for ``concurrency: exclusive``."""


def _convert_exclusive(value: Any, number: ValidatorFunctionWrapHandler) -> Any:
    return EXCLUSIVE if value == "exclusive" else number(value)


_AtOnce = Annotated[int, Field(ge=1, le=4096)]
Concurrency: TypeAlias = Annotated[
    _AtOnce,
    WrapValidator(_convert_exclusive, json_schema_input_type=_AtOnce | Literal["exclusive"]),
    Field(
        description="Its concurrent invocations in one process; exclusive for one at a time in the whole organism, "
        "across all processes."
    ),
]
_Word: TypeAlias = Literal["source", "sink", "trusted", "inert", "relay", "quarantined", "planner"]
_Words = Annotated[list[_Word], Field(max_length=6)]
Trusts: TypeAlias = Annotated[_Words, BeforeValidator(wrap_text, json_schema_input_type=_Word | _Words)]
_Served: TypeAlias = Literal["source", "sink", "trusted", "inert", "relay"]
_AllServed = Annotated[list[_Served], Field(min_length=1, max_length=4)]
ToolTrusts: TypeAlias = Annotated[
    _AllServed, BeforeValidator(wrap_text, json_schema_input_type=_Served | _AllServed)
]
