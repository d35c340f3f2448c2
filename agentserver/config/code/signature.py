"""Checks the signature of a handler, and compiles functions with typed parameters to handlers."""

from __future__ import annotations

import ast
import collections.abc
import functools
import inspect
import linecache
import re
import sys
import types
import typing
from dataclasses import dataclass, field
from itertools import chain
from types import FunctionType, MethodType, NoneType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agentserver import contract
from agentserver.config.code.userland import Crash, attempt
from agentserver.contract import SYSTEM_PAYLOADS, HandlerMetadata, HandlerResponse, HandlerResult
from agentserver.flow.handler import FlowHandler
from agentserver.flow.lines import KEPT
from agentserver.flow.streams import read_stream
from agentserver.payload.codec import Codecs
from agentserver.payload.functions import SignatureError, derive, is_function_listener, iter_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.config.organism import Handler
    from agentserver.payload.functions import FunctionForm


SYNC = (
    "must be declared with async def: a synchronous handler would stop every conversation while it runs, "
    "and it is not wrapped for you"
)


@dataclass(frozen=True, slots=True)
class SignatureRefusal:
    """Reason why a callable is not a handler, with the place of its code if known."""

    message: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Signature:
    """Checked handler.

    Args:
        payloads: the classes that its payload annotation names, in order; empty when it names none.
        returns_bytes: whether its return annotation names ``bytes``.
        function: the function that runs when the handler is called.
        file: that holds its code.
        line: of its ``def``.
        handler: the v2.1 handler: the callable itself, or what a function with typed parameters compiles to.
        form: of such a function; None for a v2.1 handler.
    """

    payloads: tuple[type, ...]
    returns_bytes: bool
    function: FunctionType
    file: str
    line: int
    handler: Handler
    form: FunctionForm | None = None

    @property
    def answers(self) -> tuple[type, ...]:
        """The only classes that it answers with; empty when unknown."""
        return () if self.form is None else self.form.answers

    @property
    def stored(self) -> tuple[type, ...]:
        """The classes that its handler stores."""
        return () if self.form is None else KEPT

    @property
    def progress(self) -> bool:
        """True for a function that yields its progress."""
        return self.form is not None and self.form.stream


Found: TypeAlias = "Signature | SignatureRefusal"


def read_signature(handler: object) -> Found:
    """Check one handler, and compile a function with typed parameters of its own to one.

    Accepts functions, bound methods, partials, instances with an async ``__call__`` and wrapped functions, if the
    called function is asynchronous.
    """
    name = _find_name(handler)
    function = _find_function(handler)
    if isinstance(handler, type) or function is None:
        return SignatureRefusal(
            f'"{name}" is no handler: an async function is needed, found {_describe_kind(handler)}'
        )
    place = _find_place(function)
    asynchronous = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if asynchronous and attempt(lambda: is_function_listener(handler)) is not False:
        return _read_function(name, handler, function)
    if inspect.isasyncgenfunction(function):
        return SignatureRefusal(
            f'"{name}" must return its responses, not yield them: it is an async generator', *place
        )
    if not inspect.iscoroutinefunction(function):
        return SignatureRefusal(f'"{name}" {SYNC}', *place)
    parameters = _find_parameters(handler)
    if parameters is None:
        own = "or typed parameters of other names, such as text: str"
        if not isinstance(handler, FunctionType | MethodType):
            own = f"typed parameters of its own need an async function or a method, not {_describe_kind(handler)}"
        return SignatureRefusal(
            f'"{name}" must take exactly two positional parameters: payload and metadata; {own}', *place
        )
    return _check_annotations(name, cast("Handler", handler), function, parameters)


def _read_function(name: str, handler: Any, function: FunctionType) -> Found:
    """Derive the payload of a function, and compile it to a handler."""
    file, line = _find_place(function)
    form = attempt(lambda: derive(handler))
    if isinstance(form, Crash):
        at = form.error.parameter if isinstance(form.error, SignatureError) else ""
        return SignatureRefusal(f'"{name}": {form.error}', file, find_line_of_parameter(file, line, at))
    return Signature(form.payloads, False, function, file, line, compile_handler(handler, form), form)


def _check_annotations(
    name: str, handler: Handler, function: FunctionType, parameters: tuple[Any, Any, Any]
) -> Found:
    """Check the annotations of payload, metadata and result."""
    place = _find_place(function)
    payload, metadata, result = (_evaluate(annotation, function) for annotation in parameters)
    for label, hint in (("payload", payload), ("metadata", metadata), ("result", result)):
        if isinstance(hint, Crash):
            return SignatureRefusal(
                f'"{name}" has an annotation of its {label} that means nothing: {hint.error}', *place
            )
    classes = _list_payload_classes(payload)
    if isinstance(classes, str):
        return SignatureRefusal(f'"{name}" annotates its payload with {classes}', *place)
    if metadata not in (HandlerMetadata, *_SILENT):
        return SignatureRefusal(
            f'"{name}" annotates its metadata with {_spell(metadata)}, not HandlerMetadata', *place
        )
    wrong = next((member for member in iter_members(result) if not _may_return(member)), None)
    if wrong is not None:
        allowed = "HandlerResponse, a sequence of them, None (or the deprecated bytes)"
        return SignatureRefusal(f'"{name}" says that it returns {_spell(wrong)}; allowed: {allowed}', *place)
    returns_bytes = result != HandlerResult and bytes in iter_members(result)
    return Signature(classes, returns_bytes, function, *place, handler)


def _find_function(handler: object) -> FunctionType | None:
    """Find the Python function that a call of the handler runs first."""
    if isinstance(handler, functools.partial):
        return _find_function(handler.func)
    if isinstance(handler, MethodType):
        return _find_function(handler.__func__)
    if isinstance(handler, FunctionType):
        return handler
    call = getattr(type(handler), "__call__", None)  # noqa: B004 - its code is wanted, not whether it exists
    return call if isinstance(call, FunctionType) else None


def _find_place(function: FunctionType) -> tuple[str, int]:
    """Return file and line of the ``def``; decorated code begins at its first decorator."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    for i in range(code.co_firstlineno, min(len(lines), code.co_firstlineno + 50) + 1):
        if re.match(r"\s*(async\s+)?def\s", lines[i - 1]):
            return code.co_filename, i
    return code.co_filename, code.co_firstlineno


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _find_parameters(handler: Callable[..., Any] | Any) -> tuple[Any, Any, Any] | None:
    """Return the annotations of payload, metadata and result; None when two positional arguments do not fit.

    A wrapper with ``*args`` accepts as many arguments as the wrapped function.
    """
    try:
        signature = inspect.signature(handler, follow_wrapped=False)
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values()):
            signature = inspect.signature(handler)
    except ValueError:
        return None
    kinds = [(p.kind, p.default is inspect.Parameter.empty) for p in signature.parameters.values()]
    positional = [p for p in signature.parameters.values() if p.kind in _POSITIONAL]
    if len(positional) != 2 or (inspect.Parameter.KEYWORD_ONLY, True) in kinds:  # noqa: PLR2004 - the contract's two
        return None
    return positional[0].annotation, positional[1].annotation, signature.return_annotation


_SILENT = (inspect.Parameter.empty, Any, object)
"""Annotations that say nothing."""


def _evaluate(annotation: Any, function: FunctionType) -> Any:
    """Evaluate an annotation; strings are evaluated in the module of the function, then with the contract."""
    if annotation is inspect.Parameter.empty:
        return annotation
    inner = inspect.unwrap(function)
    names = {**vars(contract), **function.__globals__, **getattr(inner, "__globals__", {})}
    holder = SimpleNamespace(__annotations__={"it": annotation})
    hints = attempt(lambda: typing.get_type_hints(holder, names, _list_closure_variables(inner)))
    return hints if isinstance(hints, Crash) else hints["it"]


def _list_closure_variables(function: Any) -> dict[str, Any]:
    """Return the closure variables that the function uses."""
    found = attempt(lambda: inspect.getclosurevars(function).nonlocals)
    return {} if isinstance(found, Crash) else dict(found)


def _list_payload_classes(hint: Any) -> tuple[type, ...] | str:
    """List the payload classes of an annotation, or return its text instead."""
    if hint in _SILENT:
        return ()
    classes = tuple(iter_members(hint))
    for member in classes:
        if not isinstance(member, type) or typing.get_origin(member) is not None:
            return f"{_spell(member)}, which is no class"
        if member is HandlerMetadata:
            return "HandlerMetadata; the payload comes first, then the metadata"
        if not is_payload(member):
            return f"{_spell(member)} ({find_origin(member)}), which is not @xmlify"
    return classes


def _may_return(hint: Any) -> bool:
    if hint in (HandlerResponse, NoneType, bytes, list, tuple, typing.Never, typing.NoReturn, *_SILENT):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kinds = [argument for argument in arguments if argument is not Ellipsis]
    return origin in (list, tuple, collections.abc.Sequence) and all(
        kind is HandlerResponse for argument in kinds for kind in iter_members(argument)
    )


def find_origin(kind: type) -> str:
    """Return file and line of a class, if known."""
    found = attempt(lambda: (inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]))
    return kind.__module__ if isinstance(found, Crash) else f"{found[0]}:{found[1]}"


def is_payload(kind: type) -> bool:
    """Return True when a class itself is ``@xmlify``, not by inheritance, or a payload of the system."""
    return "__xml_name__" in vars(kind) or kind in SYSTEM_PAYLOADS


def _find_name(value: object) -> str:
    inner = value.func if isinstance(value, functools.partial) else value
    return str(getattr(inner, "__qualname__", type(inner).__qualname__))


def _spell(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _describe_kind(value: object) -> str:
    return "a class" if isinstance(value, type) else f"an object of {type(value).__qualname__}"


@dataclass(frozen=True, slots=True)
class _HandlerModule:
    """Module with handlers: its variables, the names in its code, the reachable payloads."""

    variables: Mapping[str, Any]
    names: frozenset[str]
    classes: tuple[type, ...]


@dataclass(slots=True)
class Discovery:
    """Finder of the ``@xmlify`` classes that the code of a handler can name. Reads a module once."""

    _homes: dict[tuple[int, int], _HandlerModule] = field(default_factory=dict)

    def list_classes(self, function: FunctionType) -> tuple[type, ...]:
        """List the classes, by module and name.

        Looks at the globals of the module and at closure variables, and in the modules among these, recursively, at the
        attributes that the code uses.
        """
        first, *wrapped = (self._collect_reachable(layer) for layer in _iter_layers(function))
        return _sort_classes({*first, *chain.from_iterable(wrapped)}) if wrapped else first

    def _collect_reachable(self, function: FunctionType) -> tuple[type, ...]:
        home, enclosed = (
            self._find_home(function),
            _list_closure_variables(function) if function.__closure__ else {},
        )
        names = _list_names([function.__code__])
        if not enclosed and names <= home.names:
            return home.classes
        return _sort_classes(
            _iter_payloads_among([*home.variables.values(), *enclosed.values()], names | home.names)
        )

    def _find_home(self, function: FunctionType) -> _HandlerModule:
        """Return the module of the function; re-read after an import, which may have extended a package."""
        variables = function.__globals__
        key = id(variables), len(sys.modules)
        if key not in self._homes:
            names = _list_looked_up_names(variables)
            classes = _sort_classes(_iter_payloads_among(list(variables.values()), names))
            self._homes[key] = _HandlerModule(variables, names, classes)
        return self._homes[key]


def list_named_classes(function: FunctionType) -> tuple[type, ...]:
    """List the payload classes that a function names, itself or through functions of its module.

    It most likely answers with one of these. ``Discovery`` finds all with which it can.
    """
    pending, seen, found = [function], set[FunctionType](), set[type]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        variables = {**each.__globals__, **_list_closure_variables(each)}
        names = _list_names([each.__code__])
        values = [variables[name] for name in names if name in variables]
        pending += [
            value for value in values if _is(value, FunctionType) and value.__module__ == function.__module__
        ]
        found.update(_iter_payloads_among(values, names))
    return _sort_classes(found)


_CODE = (FunctionType, type)


def _is(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Return True when the type of a value is a subclass; ``isinstance`` may run code of the object."""
    return issubclass(type(value), kinds)


def _iter_layers(function: Any) -> Iterator[FunctionType]:
    """Yield a function and the functions that it wraps."""
    while isinstance(function, FunctionType):
        yield function
        function = getattr(function, "__wrapped__", None)


def _list_looked_up_names(variables: Mapping[str, Any]) -> frozenset[str]:
    """List every name that a function or method of a module looks up."""
    own = variables.get("__name__")
    siblings = [one for one in variables.values() if _is(one, _CODE) and one.__module__ == own]
    methods = [value for kind in siblings if _is(kind, type) for value in vars(kind).values()]
    return _list_names([found.__code__ for found in (*siblings, *methods) if _is(found, FunctionType)])


def _list_names(codes: list[types.CodeType]) -> frozenset[str]:
    """List the names in code, including nested code."""
    for code in codes:  # grows while it is gone through
        codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    return frozenset(name for code in codes for name in code.co_names)


def _iter_payloads_among(values: list[Any], names: frozenset[str]) -> Iterator[type]:
    modules = [value for value in values if _is(value, types.ModuleType)]
    seen = {id(module) for module in modules}
    for module in modules:  # grows while it is gone through
        found = [vars(module)[name] for name in names if name in vars(module)]
        values += found
        inner = [value for value in found if _is(value, types.ModuleType) and id(value) not in seen]
        seen.update(map(id, inner))
        modules += inner
    return (value for value in values if _is(value, type) and "__xml_name__" in vars(value))


def _sort_classes(kinds: Iterable[type]) -> tuple[type, ...]:
    return tuple(sorted(set(kinds), key=lambda kind: (kind.__module__, kind.__qualname__)))


def compile_handler(function: Callable[..., Any], form: FunctionForm) -> FlowHandler:
    """Return the v2.1 handler of a function, which may await messages.

    It passes the fields of a payload as arguments and answers the caller with the value. A refusal of an earlier
    answer is passed to the caller.
    """
    names = frozenset(kind.__xml_name__ for kind in form.payloads)  # type: ignore[attr-defined]
    inner = inspect.unwrap(function)

    async def run(payload: Any) -> Any:
        if type(payload).__xml_name__ not in names:  # a class of the same name, behind a wall
            raise TypeError(f"{form.name} does not take {type(payload).__name__}")
        by_place, by_name = form.list_arguments(payload)
        result = function(*by_place, **by_name)
        value = await (read_stream(result, form.name) if form.stream else result)
        return form.answer(value)

    run.__module__, run.__qualname__ = inner.__module__, inner.__qualname__
    run.__wrapped__ = inner  # type: ignore[attr-defined]
    return FlowHandler(run, Codecs((*form.payloads, *form.answers)))


def find_line_of_parameter(file: str, line: int, name: str) -> int:
    """Find the line of a parameter, or of the return annotation, of the function that begins at ``line``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return line
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.lineno == line
    )
    for node in functions:
        if name == "return" and node.returns is not None:
            return node.returns.lineno
        arguments = node.args
        parameters = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        return next((each.lineno for each in parameters if each is not None and each.arg == name), line)
    return line
