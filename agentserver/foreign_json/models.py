"""Validates values from other parties as instances of pydantic models, up to the first error.

Pydantic by itself collects every error, so a list of a hundred thousand bad items would cost hundreds of megabytes.
These validators stop at the first bad item of any list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from agentserver.codec import write_pointer
from agentserver.foreign_json.reading import RefusedJson, parse_json

if TYPE_CHECKING:
    from agentserver.foreign_json.reading import JsonLimits

T = TypeVar("T")

_LISTS: Final = ("list", "tuple", "set", "frozenset")


class ForeignModel(Generic[T]):
    """Validator for values of one type from other parties.

    Args:
        kind: a model, a dataclass, or any other type that pydantic accepts.
        by_name: whether fields may also be given by their Python names; None leaves it to the model.
    """

    def __init__(self, kind: Any, *, by_name: bool | None = None) -> None:
        schema = _copy_failing_fast(TypeAdapter(kind).core_schema)
        self._validator = SchemaValidator(
            schema, _use_prebuilt=False
        )  # nested models would continue after an error
        self._by_name = by_name

    def read(self, data: bytes, limits: JsonLimits) -> T | RefusedJson:
        """Parse and validate a JSON text. Returns the reason if it is refused."""
        found = parse_json(data, limits)
        if isinstance(found, RefusedJson):
            return found
        try:
            # From text: strict models accept JSON's strings and arrays where they would refuse Python's.
            instance: T = self._validator.validate_json(data, by_name=self._by_name)
        except ValidationError as error:
            return _describe_first(error)
        return instance

    def fit(self, value: Any) -> T | RefusedJson:
        """Validate a value from ``parse_json``. Returns the reason if it is refused."""
        try:
            instance: T = self._validator.validate_python(value, by_name=self._by_name)
        except ValidationError as error:
            return _describe_first(error)
        return instance


def _copy_failing_fast(schema: Any) -> Any:
    """Copy a core schema so that each list stops at its first error."""
    if isinstance(schema, dict):
        copy = {name: _copy_failing_fast(each) for name, each in schema.items()}
        return {**copy, "fail_fast": True} if copy.get("type") in _LISTS else copy
    if isinstance(schema, list | tuple):
        return type(schema)(map(_copy_failing_fast, schema))
    return schema


def _describe_first(error: ValidationError) -> RefusedJson:
    """Describe the first error without quoting the input."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return RefusedJson(fault["type"], write_pointer(fault["loc"]))
