"""Derives the payload classes of a function that is a listener from its signature and docstring."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import sys
import typing
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MappingProxyType, MethodType, ModuleType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, ParamSpec, Union, overload

from agentserver import contract
from agentserver.contract import SYSTEM_PAYLOADS, HandlerMetadata, HandlerResponse
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.names import local
from agentserver.payload.xmlify import make_payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["payload_of"]

P = ParamSpec("P")

_CONTRACT = frozenset({"payload", "metadata"})
"""Names of parameters that make a function a v2.1 handler."""

_UNKNOWN = (inspect.Parameter.empty, Any, object)
"""Annotations without a type."""

_STREAMS = (collections.abc.AsyncIterator, collections.abc.AsyncGenerator, collections.abc.AsyncIterable)

_FACTORIES = (list, dict, set)
"""Types of defaults that a dataclass takes from a factory only."""


class SignatureError(PayloadError):
    """Signature from which no payload can be derived.

    Args:
        parameter: its name; ``return`` for the answer, empty for the function as a whole.
        text: the reason and a likely correction.
    """

    def __init__(self, parameter: str, text: str) -> None:
        place = {"": "", "return": "its answer "}.get(parameter, f"parameter {parameter} ")
        super().__init__(f"{place}{text}")
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class FunctionForm:
    """Payloads and call of a function that is a listener.

    Args:
        name: of the function.
        payloads: the classes that it accepts: the derived one, or the ones that its only parameter names.
        takes_payload: whether its only parameter is the payload itself.
        positional: parameters that are passed by position.
        keywords: parameters that are passed by name.
        answers: the classes that it answers with.
        tuples: the derived class of each NamedTuple that it answers with.
        result: the derived class around a simple value, or of the acknowledgement; None when it returns neither.
        result_has_value: whether ``result`` has a value.
        may_return_none: whether it may return None, which is answered with an empty ``result``.
        stream: whether it is an async generator.
    """

    name: str
    payloads: tuple[type, ...]
    takes_payload: bool
    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    answers: tuple[type, ...]
    tuples: Mapping[type, type]
    result: type | None
    result_has_value: bool
    may_return_none: bool
    stream: bool

    def list_arguments(self, payload: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the call that a payload asks for."""
        if self.takes_payload:
            return (payload,), {}
        by_place = tuple([getattr(payload, name) for name in self.positional])
        return by_place, {name: getattr(payload, name) for name in self.keywords}

    def answer(self, value: Any) -> Any:
        """Return the payload that carries a returned value.

        Raises TypeError for a value of another type than the annotation names.
        """
        if value is None and self.may_return_none and self.result is not None:
            return self.result()
        kind = type(value)
        if kind in self.tuples:
            return self.tuples[kind](*value)
        if kind in self.answers and kind is not self.result:
            return value
        if value is None or self.result is None or not self.result_has_value or hasattr(kind, "__xml_name__"):
            known = ", ".join(each.__name__ for each in self.answers) or "nothing"
            raise TypeError(
                f"{self.name} answered with {'None' if value is None else kind.__name__}, and is declared to "
                f"answer with {known}"
            )
        return self.result(value)


def is_function_listener(handler: object) -> bool:
    """Check whether a callable has typed parameters of its own instead of payload and metadata."""
    if not isinstance(handler, FunctionType | MethodType):
        return False
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except ValueError:
        return False
    if any(each.name in _CONTRACT for each in parameters):
        return False
    if parameters and all(each.annotation is inspect.Parameter.empty for each in parameters):
        return False
    hints = [_hint_or_none(handler, each.annotation) for each in parameters]
    if HandlerMetadata in hints:
        return False
    second_unknown = len(hints) == 2 and hints[1] in _UNKNOWN  # noqa: PLR2004 - the contract's two
    return not (second_unknown and (hints[0] in (None, *_UNKNOWN) or _are_payloads(hints[0])))


def derive(handler: FunctionType | MethodType) -> FunctionForm:
    """Derive the payload classes of a function. They are derived once and kept as attributes of it.

    Raises SignatureError.
    """
    parameters = tuple(inspect.signature(handler).parameters.values())
    for each in parameters:
        _check_kind(each)
    hints = {each.name: _hint(handler, each.name, each.annotation) for each in parameters}
    function = _function(handler)
    whole = len(parameters) == 1 and _are_payloads(hints[parameters[0].name])
    stream = inspect.isasyncgenfunction(function)
    returned = _hint(handler, "return", inspect.signature(handler).return_annotation)
    kinds = tuple(_iter_alternatives(_answers_of_stream(returned) if stream else returned))
    if own := [each.__name__ for each in kinds if each in SYSTEM_PAYLOADS]:
        raise SignatureError("return", f"is {own[0]}, which belongs to the system; leave it out")
    payloads = tuple(iter_members(hints[parameters[0].name])) if whole else ()
    payloads = payloads or (_payload_class(function, parameters, hints),)
    tuples = {each: _tuple_class(each) for each in kinds if _is_named_tuple(each)}
    classes = [_answer_class(each, tuples, function) for each in kinds if _is_record(each)]
    simple = [each for each in kinds if not _is_record(each)]
    if len(simple) > 1:
        raise SignatureError("return", "has several simple types; return a dataclass with a field for each")
    may_return_none = NoneType in iter_members(_answers_of_stream(returned) if stream else returned)
    result = None
    if simple or may_return_none:
        result = _find_result_class(function, simple[0] if simple else None, optional=may_return_none)
    answers = tuple(dict.fromkeys([*classes, *([result] if result else [])]))
    _check_names(function, payloads[0], whole=whole, answers=answers)
    positional = [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_ONLY]
    keywords = [each.name for each in parameters if each.name not in positional]
    return FunctionForm(
        function.__qualname__,
        payloads,
        whole,
        tuple(positional),
        tuple(keywords),
        answers,
        MappingProxyType(tuples),
        result,
        bool(simple),
        may_return_none,
        stream,
    )


@overload
def payload_of(function: str, /) -> type[Any]: ...
@overload
def payload_of(function: Callable[P, object], /) -> Callable[P, Any]: ...
def payload_of(function: str | Callable[..., object], /) -> Any:
    """Return the payload class that is derived from a function.

    Args:
        function: the function, or the dotted path of the class, as in ``payload_of("bank.Transfer")``.

    Raises:
        PayloadError: there is no such function, or its signature cannot be typed.
    """
    if not isinstance(function, str):
        if not isinstance(function, FunctionType | MethodType) or not is_function_listener(function):
            raise PayloadError(f"{function!r} is not a function with typed parameters of its own")
        return derive(function).payloads[0]
    home, _, name = function.rpartition(".")
    frame = sys._getframe(1)  # noqa: SLF001 - modules of a reload are imported by the importer of their code
    importer = frame.f_builtins["__import__"]
    module = importer(home, frame.f_globals, None, (name,), 0) if home else None
    found = None if module is None else vars(module).get(name) or find_derived_class(module, name)
    if not isinstance(found, type):
        raise PayloadError(
            f"there is no function in {home or function!r} from which {name} is derived; "
            "Transfer is derived from async def transfer, FindVendor from find_vendor"
        )
    return found


def find_derived_class(module: ModuleType, name: str) -> type | None:
    """Return the class of this name that is derived from a function of a module; None without one.

    Raises SignatureError.
    """
    for value in tuple(vars(module).values()):
        if type(value) is not FunctionType or not value.__code__.co_flags & _ASYNC:
            continue
        own = class_name(value.__name__)
        if name in (own, f"{own}Result") and is_function_listener(value):
            form = derive(value)
            known = (*(() if form.takes_payload else form.payloads), *filter(None, [form.result]))
            found = [each for each in known if each.__name__ == name]
            if found:
                return found[0]
    return None


_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def find_source_function(payload: type) -> FunctionType | None:
    """Return the function from which a class is derived; None for any other class."""
    found = vars(payload).get("__derived_from__")
    return found if isinstance(found, FunctionType) else None


def class_name(function: str) -> str:
    """Return the name of the class that is derived from a function: ``FindVendor`` of ``find_vendor``."""
    return "".join(part[:1].upper() + part[1:] for part in function.split("_"))


def _function(handler: Any) -> FunctionType:
    """Return the function of a handler that has the signature, below bound methods and wrappers."""
    inner = inspect.unwrap(handler.__func__ if isinstance(handler, MethodType) else handler)
    assert isinstance(inner, FunctionType)
    return inner


def _check_kind(parameter: inspect.Parameter) -> None:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise SignatureError(parameter.name, f"is variadic; use one list, {parameter.name}: list[str]")
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        raise SignatureError(parameter.name, "is variadic; use a parameter for each key")
    if parameter.annotation is inspect.Parameter.empty and parameter.name == "self":
        raise SignatureError(
            "self", "belongs to a method; name the method of an instance, as in bank = Bank()"
        )
    if parameter.annotation is inspect.Parameter.empty:
        raise SignatureError(parameter.name, f"has no type; write {parameter.name}: str, for example")


def _hint(handler: Any, name: str, annotation: Any) -> Any:
    """Evaluate an annotation. Raises SignatureError."""
    if annotation is inspect.Parameter.empty:
        stream = inspect.isasyncgenfunction(_function(handler))
        form = "AsyncIterator[str | Receipt]" if stream else "None, or -> and the class that it returns"
        raise SignatureError(name, f"has no type; write -> {form}")
    function = _function(handler)
    names = {**vars(contract), **function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    enclosed = {free: cell.cell_contents for free, cell in cells if _is_filled(cell)}
    holder = type("_Holder", (), {"__annotations__": {"it": annotation}})
    try:
        hint = typing.get_type_hints(holder, names, enclosed, include_extras=True)["it"]
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise SignatureError(
            name, f"has an unknown type ({error}); import it at runtime, not under TYPE_CHECKING"
        ) from None
    if hint in _UNKNOWN:
        raise SignatureError(name, "has no type of its own; name the type instead of Any or object")
    return hint


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _hint_or_none(handler: Any, annotation: Any) -> Any:
    if annotation in _UNKNOWN:
        return annotation
    try:
        return _hint(handler, "", annotation)
    except SignatureError:
        return HandlerMetadata if str(annotation).rpartition(".")[2] == "HandlerMetadata" else None


def iter_members(hint: Any) -> Iterator[Any]:
    """Yield the alternatives of a union or of its alias; any other hint is the only one."""
    if hasattr(hint, "__value__") and not isinstance(hint, type):
        hint = hint.__value__
    if typing.get_origin(hint) in (Union, UnionType):
        for part in typing.get_args(hint):
            yield from iter_members(part)
    else:
        yield hint


def _are_payloads(hint: Any) -> bool:
    """Check whether a hint names payload classes only."""
    return all(_is_payload(each) for each in iter_members(hint))


def _is_class(hint: Any) -> bool:
    return isinstance(hint, type) and typing.get_origin(hint) is None


def _is_payload(hint: Any) -> bool:
    return _is_class(hint) and "__xml_name__" in vars(hint)


def _is_named_tuple(hint: Any) -> bool:
    return _is_class(hint) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _is_record(hint: Any) -> bool:
    return _is_class(hint) and (dataclasses.is_dataclass(hint) or _is_named_tuple(hint))


def _answers_of_stream(hint: Any) -> Any:
    """Return the type that an async generator yields besides its progress. Raises SignatureError."""
    if typing.get_origin(hint) not in _STREAMS:
        raise SignatureError("return", "is yielded; write -> AsyncIterator[str | Receipt]")
    rest = [each for each in iter_members(typing.get_args(hint)[0]) if each is not str]
    return Union[tuple(rest)] if rest else NoneType  # noqa: UP007 - of a list


def _iter_alternatives(hint: Any) -> Iterator[Any]:
    """Yield the types of the answers; none for a function that ends without one. Raises SignatureError."""
    for each in iter_members(hint):
        if HandlerResponse in (each, *typing.get_args(each)):
            raise SignatureError(
                "return",
                "is a HandlerResponse; return the payload itself, and await ask(...) or declare (payload, metadata) "
                "to address a peer",
            )
        if typing.get_origin(each) in _STREAMS:
            raise SignatureError("return", "is a stream, and it does not yield; return one value")
        if each not in (NoneType, typing.Never, typing.NoReturn):
            yield each


def _keep(owner: Any, attribute: str, make: Callable[[], type]) -> type:
    """Return the class that an owner keeps as an attribute, made at the first time."""
    cls = vars(owner).get(attribute)
    if not isinstance(cls, type):
        cls = make()
        setattr(owner, attribute, cls)
    return cls


def _payload_class(
    function: FunctionType, parameters: tuple[inspect.Parameter, ...], hints: Mapping[str, Any]
) -> type:
    """Return the payload class of the parameters."""
    fields = [(each.name, hints[each.name], _field(each)) for each in parameters]
    name = class_name(function.__name__)
    return _keep(function, "__payload_class__", lambda: _make(name, fields, function.__doc__, function))


def _find_result_class(function: FunctionType, hint: Any, *, optional: bool) -> type:
    """Return the class around a simple answer.

    Args:
        function: that returns it.
        hint: its type; None for a class without a field, which acknowledges the work.
        optional: whether the value may be missing. A missing list is an empty one.
    """
    name, doc = f"{class_name(function.__name__)}Result", f"The answer of {function.__name__}."
    field: Any = dataclasses.field()
    if optional and typing.get_origin(hint) is list:
        field = dataclasses.field(default_factory=list)
    elif optional and hint is not None:
        hint, field = hint | None, dataclasses.field(default=None)
    fields = [] if hint is None else [("value", hint, field)]
    return _keep(function, "__result_class__", lambda: _make(name, fields, doc, function))


def _tuple_class(kind: Any) -> type:
    """Return the payload class of a NamedTuple."""
    hints, defaults = typing.get_type_hints(kind, include_extras=True), kind._field_defaults
    fields = [
        (name, hints.get(name, Any), dataclasses.field(default=defaults.get(name, dataclasses.MISSING)))
        for name in kind._fields
    ]
    doc = "" if str(kind.__doc__).startswith(f"{kind.__name__}(") else kind.__doc__

    def make() -> type:
        cls = _make(kind.__name__, fields, doc, None)
        cls.__module__ = kind.__module__ or __name__
        return cls

    return _keep(kind, "__payload_class__", make)


def _answer_class(kind: Any, tuples: Mapping[type, type], function: FunctionType) -> type:
    """Return the payload class of a record that is returned; a plain dataclass becomes a payload."""
    if kind in tuples:
        return tuples[kind]
    if not _is_payload(kind):
        try:
            make_payload(kind, function.__globals__)
        except PayloadError as error:
            raise SignatureError("return", str(error)) from None
    return typing.cast("type", kind)


def _field(parameter: inspect.Parameter) -> Any:
    """Return the field of a parameter, with its default."""
    keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    default = parameter.default
    if default is inspect.Parameter.empty:
        return dataclasses.field(kw_only=keyword)
    if isinstance(default, _FACTORIES):
        return dataclasses.field(default_factory=partial(type(default), default), kw_only=keyword)
    return dataclasses.field(default=default, kw_only=keyword)


def _make(
    name: str, fields: list[tuple[str, Any, Any]], doc: str | None, function: FunctionType | None
) -> type:
    """Make a payload class. Raises SignatureError."""
    namespace: dict[str, Any] = {"__doc__": inspect.cleandoc(doc)} if doc else {}
    if function is not None:
        namespace["__derived_from__"] = function
    try:
        cls = dataclasses.make_dataclass(name, fields, frozen=True, namespace=namespace)
        if function is not None:
            cls.__module__ = function.__module__ or __name__  # None in code that no module holds
        return make_payload(cls, {})
    except PayloadError as error:
        found = re.fullmatch(rf"{re.escape(name)}\.(\w+): (.*)", str(error), re.DOTALL)
        answer = function is None or (name.endswith("Result") and [each[0] for each in fields] == ["value"])
        if found is None or answer:
            raise SignatureError("return" if answer else "", found[2] if found else str(error)) from None
        raise SignatureError(found[1], found[2]) from None
    except (TypeError, ValueError) as error:
        raise SignatureError("", str(error)) from None


def _check_names(function: FunctionType, payload: Any, *, whole: bool, answers: tuple[Any, ...]) -> None:
    """Refuse a derived class with the name of a class that is written by hand. Raises SignatureError."""
    if whole:
        return
    written = function.__globals__.get(payload.__name__)
    for other in (*answers, written):
        if _is_payload(other) and other is not payload and other.__xml_name__ == payload.__xml_name__:
            raise SignatureError(
                "",
                f"derives {local(payload.__xml_name__)}, which is a class already; rename the function, "
                f"or take that class as its only parameter",
            )
