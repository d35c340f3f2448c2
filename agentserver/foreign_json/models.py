"""Values of other parties as instances of pydantic models, up to the first error.

Owns the one place where foreign values meet pydantic. Pydantic continues after an error and keeps each, so that a list
of a hundred thousand bad items costs hundreds of megabytes; the validators here stop at the first bad item of any list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from agentserver.foreign_json.reading import RefusedJson, read

if TYPE_CHECKING:
    from agentserver.foreign_json.reading import JsonLimits

T = TypeVar("T")

STEPS: Final = 8
"""Steps of a path that a refusal shows."""
STEP: Final = 64
"""Characters of a step."""

_LISTS: Final = ("list", "tuple", "set", "frozenset")


class ForeignModel(Generic[T]):
    """The form that a foreign value has to have.

    Args:
        kind: a model, a dataclass, or what else pydantic takes for a type.
        by_name: whether fields may be called by their Python names too; None leaves it to the model.
    """

    def __init__(self, kind: Any, *, by_name: bool | None = None) -> None:
        schema = _failing_fast(TypeAdapter(kind).core_schema)
        self._validator = SchemaValidator(
            schema, _use_prebuilt=False
        )  # those of its parts continue after an error
        self._by_name = by_name

    def read(self, data: bytes, limits: JsonLimits) -> T | RefusedJson:
        """Read a JSON text as an instance, or return the one reason why it does not fit."""
        found = read(data, limits)
        if isinstance(found, RefusedJson):
            return found
        try:
            # From the text: strict models take texts and arrays of JSON where they would refuse those of Python.
            instance: T = self._validator.validate_json(data, by_name=self._by_name)
        except ValidationError as error:
            return _first(error)
        return instance

    def fit(self, value: Any) -> T | RefusedJson:
        """Make an instance of a value that ``read`` has given, or return the one reason why it fits none."""
        try:
            instance: T = self._validator.validate_python(value, by_name=self._by_name)
        except ValidationError as error:
            return _first(error)
        return instance


def _failing_fast(schema: Any) -> Any:
    """A copy of a core schema in which each list stops at its first error."""
    if isinstance(schema, dict):
        copy = {name: _failing_fast(each) for name, each in schema.items()}
        return {**copy, "fail_fast": True} if copy.get("type") in _LISTS else copy
    if isinstance(schema, list | tuple):
        return type(schema)(map(_failing_fast, schema))
    return schema


def _first(error: ValidationError) -> RefusedJson:
    """The first fault, without what was sent."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    pointer = "".join(f"/{_step(step)}" for step in fault["loc"][:STEPS])
    return RefusedJson(fault["type"], pointer)


def _step(step: int | str) -> str:
    """A step of a JSON pointer. The sender may have chosen it, so what is not printable is escaped for logs."""
    printable = repr(str(step)[:STEP])[1:-1]
    return printable[:STEP].replace("~", "~0").replace("/", "~1")
