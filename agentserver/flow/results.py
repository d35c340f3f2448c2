"""Converts the results of ``once`` to JSON and back, by the type that the function declares to return."""

from __future__ import annotations

import collections.abc
import inspect
import json
import typing
from functools import partial
from types import FunctionType, MappingProxyType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, Final

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from agentserver.codec import write_pointer
from agentserver.flow.errors import FlowError
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

_LIMITS: Final = JsonLimits(bytes=1 << 24, values=1 << 20)

_KEPT: Final = "return a dataclass, a NamedTuple, a text, a number, or a list or dict of them"

_PLAIN: Final = (str, int, bool, NoneType, Any, object)
"""Types whose values JSON gives back as they were."""

_ANY: Final = TypeAdapter[Any](Any)
"""Of functions that declare no type."""

_AWAITED: Final = (collections.abc.Coroutine, collections.abc.Awaitable)


class ResultKind:
    """Conversion of the results of one function.

    Args:
        function: the function.
        name: of the effect, for errors.

    Raises FlowError if JSON cannot hold the type that it declares to return.
    """

    __slots__ = ("_adapter", "_hint", "_name", "_reader", "function")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self._name = function, name
        self._hint = self._read_hint(function)
        self._adapter = self._find_adapt(self._hint)
        self._reader: ForeignModel[Any] | None = None

    def dump(self, value: Any) -> str:
        """Write a result as JSON. Raises FlowError."""
        adapter = self._adapter or _ANY
        try:
            return dump_json(adapter.dump_python(value, mode="json", warnings=False))
        except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
            message = f"{self._name}: its result, {type(value).__name__}, cannot be kept ({error}), so that its outcome"
            raise FlowError(f"{message} is unknown: {_KEPT}") from None

    def load(self, text: str) -> Any:
        """Read a recorded result. Raises FlowError."""
        if self._adapter is None:
            return load_json(text)
        if self._reader is None:
            self._reader = ForeignModel(self._hint)
        value = self._reader.read(text.encode("utf-8", "surrogatepass"), _LIMITS)
        if isinstance(value, RefusedJson):
            raise FlowError(f"{self._name}: the recorded result is of another type than it returns: {value}")
        return value

    def explain_mismatch(self, text: str) -> str:
        """Return why a JSON text is no result of the function; an empty text if it is one."""
        if self._adapter is None:
            value = load_json(text)
            fits = self._hint in {Any, object, type(value)}
            return "" if fits else f"it is {_name_kind(value)}"
        try:
            self._adapter.validate_json(text)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            return ": ".join(filter(None, (write_pointer(fault["loc"]), fault["msg"])))
        return ""

    @property
    def described(self) -> str:
        """The type that the function declares to return, as its author wrote it."""
        hint = self._hint
        return hint.__qualname__ if isinstance(hint, type) else str(hint).replace("typing.", "")

    def _find_adapt(self, hint: Any) -> TypeAdapter[Any] | None:
        """Return the adapter of a type; None for a type that JSON has itself."""
        if any(hint is each for each in _PLAIN):
            return None
        try:
            return TypeAdapter(hint)
        except (PydanticUserError, NameError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise FlowError(
                f"{self._name}: a result of its type cannot be kept ({reason}): {_KEPT}"
            ) from None

    def _read_hint(self, function: Callable[..., Any]) -> Any:
        """Read the declared type of a function; Any for one without source, such as a builtin."""
        inner = _find_function(function)
        if inner is None or "return" not in inner.__annotations__:
            return Any
        holder = type("_Holder", (), {"__annotations__": {"it": inner.__annotations__["return"]}})
        try:
            enclosed = inspect.getclosurevars(inner).nonlocals
            hint = typing.get_type_hints(holder, inner.__globals__, dict(enclosed), include_extras=True)["it"]
        except (NameError, AttributeError, TypeError, ValueError, SyntaxError) as error:
            message = f"{self._name}: the type that it returns is unknown ({error})"
            raise FlowError(f"{message}: import it at runtime, not under TYPE_CHECKING") from None
        return typing.get_args(hint)[-1] if typing.get_origin(hint) in _AWAITED else hint


_JSON_KINDS: Final = MappingProxyType(
    {str: "a text", bool: "true or false", int: "a number", float: "a number"}
)


def _name_kind(value: Any) -> str:
    """Return what JSON calls a value."""
    return _JSON_KINDS.get(type(value), "null" if value is None else "a list or an object")


def find_result_kind(flow: Callable[..., Any], effect: str) -> ResultKind | None:
    """Return the conversion of the results of a function that a flow passes to ``once``.

    Args:
        flow: the function of the flow.
        effect: key of the external effect, or its name.

    Returns: None unless exactly one function under the flow's module names has the name of the effect, and declares a
        type that can be kept.
    """
    name = effect.rpartition(" #")[0] or effect
    _, _, path = name.partition("once ")
    first, *rest = path.split(".") if path else [""]
    found: dict[int, Any] = {}
    for value in [*_unwrap(flow).__globals__.values()]:
        holder = vars(value).get(first) if isinstance(value, ModuleType) else value
        if getattr(holder, "__name__", "") != first:
            continue
        for each in rest:
            holder = getattr(holder, each, None)
        if callable(holder):
            found[id(holder)] = holder
    if len(found) != 1:
        return None
    (function,) = found.values()
    try:
        return ResultKind(function, name)
    except FlowError:
        return None


def _unwrap(function: Callable[..., Any]) -> Any:
    return inspect.unwrap(_find_function(function) or function)


def is_async(function: Callable[..., Any]) -> bool:
    """Check whether a call of a function returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object with an async __call__
    )


def dump_json(value: Any) -> str:
    """Write a value as JSON. Raises TypeError and ValueError."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def load_json(text: str) -> Any:
    """Read a recorded value. Raises FlowError."""
    value = parse_json(text, _LIMITS)
    if isinstance(value, RefusedJson):
        raise FlowError(f"a value of the log is damaged: {value}")
    return value


def _find_function(function: Any) -> FunctionType | None:
    """Return the function below partials, bound methods and wrappers; None for a builtin, class or the like."""
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = vars(type(function)).get("__call__")
    inner = inspect.unwrap(function.__func__ if isinstance(function, MethodType) else function)
    return inner if isinstance(inner, FunctionType) else None
