"""Finds what a flow does that may differ when it is run again: time, randomness, files, threads, the order of sets.

It finds requests that are not awaited as well: they do nothing.

Static: it reads the source of the function and of the functions of its module that it calls. None of the code runs.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.flow import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ONCE: Final = "put it into once"
_HELP: Final[Mapping[str, str]] = MappingProxyType(
    {
        "time": "use now() or sleep() of agentserver.flow",
        "datetime": "use now() of agentserver.flow",
        "random": "use random() of agentserver.flow",
        "secrets": "use random() or uuid() of agentserver.flow",
        "uuid": "use uuid() of agentserver.flow",
        "asyncio": "use sleep(), gather() or wait_for() of agentserver.flow",
        "anyio": "use sleep(), gather() or wait_for() of agentserver.flow",
        **dict.fromkeys(
            (
                "os",
                "io",
                "socket",
                "ssl",
                "subprocess",
                "threading",
                "multiprocessing",
                "concurrent",
                "tempfile",
                "shutil",
            ),
            _ONCE,
        ),
        **dict.fromkeys(("urllib", "http", "httpx", "requests", "aiohttp", "smtplib", "sqlite3"), _ONCE),
    }
)
"""Modules whose functions differ from run to run, with a likely correction."""

_SAME: Final = frozenset(
    {"os.path", "urllib.parse", "os.fspath", "datetime.timedelta", "uuid.UUID", "uuid.uuid3", "uuid.uuid5"}
)
"""Parts of them that do not."""

_CLOCKS: Final = frozenset({"now", "utcnow", "today"})
_FILES: Final = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})


_VALUES: Final = frozenset({"now", "uuid", "random", "changed"})
"""Requests that code has no reason to keep for later, so that one without ``await`` is a mistake."""


class FlowFault(NamedTuple):
    """Expression of a flow whose value may differ when it is run again, or a request that is not awaited.

    Args:
        file: of the source.
        line: from 1.
        text: the expression and its fault.
        help: a likely correction.
    """

    file: Path
    line: int
    text: str
    help: str


def find_faults(function: Callable[..., Any]) -> Iterator[FlowFault]:
    """Yield the faults of a function that awaits messages; none for any other function."""
    sources = list(_list_sources(inspect.unwrap(function)))
    if any(each.awaits for each in sources):
        for each in sources:
            yield from each.faults


class _Source:
    """Function, with the faults of its own source.

    Args:
        function: to read.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function, self.faults, self.awaits = function, list[FlowFault](), False
        self.calls: list[FunctionType] = []
        self._awaited = set[ast.Call]()
        self._names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        lines, self._start = inspect.getsourcelines(function)
        self._file = Path(inspect.getsourcefile(function) or "")
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
        self._sets = _list_set_names(tree)
        for node in ast.iter_child_nodes(tree):
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Lambda() | ast.FunctionDef():
                return  # called by once, or by a function that it is passed to
            case ast.Expr(value=ast.Call() as call) if self._find_request_name(call):
                self._report_request(call)
                self._awaited.add(call)
            case ast.Await(value=ast.Call() as call):
                self._awaited.add(call)
            case ast.Call():
                self._look_at_call(node)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._look_at_loop(node.iter)
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _look_at_call(self, node: ast.Call) -> None:
        called = self._resolve(node.func)
        if name := self._find_request_name(node):
            self.awaits = True
            if name in _VALUES and node not in self._awaited:
                self._report_request(node)
            self._awaited.update(each for each in ast.walk(node) if isinstance(each, ast.Call))
        elif isinstance(called, FunctionType) and called.__module__ == self.function.__module__:
            self.calls.append(called)
        elif node.args and any(called is each for each in (list, tuple, iter, enumerate)):
            self._look_at_loop(node.args[0])
        else:
            self._judge(node, called)

    def _find_request_name(self, node: ast.Call) -> str:
        """Return the name of the request that a call makes; empty for any other call."""
        called = self._resolve(node.func)
        return called.__name__ if getattr(called, "__module__", "") == requests.__name__ else ""  # type: ignore[attr-defined]

    def _report_request(self, node: ast.Call) -> None:
        callee = ast.unparse(node.func)
        self._report(
            node, f"{callee}() is not awaited, so that it does nothing", f"write await {callee}(...)"
        )

    def _judge(self, node: ast.Call, called: object) -> None:
        """Report a call whose result differs from run to run."""
        callee = ast.unparse(node.func)
        if called is open:
            self._report(node, f"{callee}() reads or writes a file", _ONCE)
            return
        if isinstance(node.func, ast.Attribute) and node.func.attr in _FILES and called is None:
            self._report(node, f"{callee}() reads or writes a file", _ONCE)
            return
        name = _find_name(called)
        top = name.partition(".")[0]
        if top not in _HELP or any(name == same or name.startswith(f"{same}.") for same in _SAME):
            return
        if top != "datetime" or name.rpartition(".")[2] in _CLOCKS:
            self._report(node, f"{callee}() may differ when the flow is run again", _HELP[top])

    def _look_at_loop(self, iterated: ast.expr) -> None:
        is_set = isinstance(iterated, ast.Name) and iterated.id in self._sets
        if is_set or _makes_set(iterated):
            self._report(
                iterated, f"the order of {ast.unparse(iterated)} differs from process to process", "sort it"
            )

    def _report(self, node: ast.expr, text: str, help: str) -> None:  # noqa: A002 - as its field
        self.faults.append(FlowFault(self._file, self._start + node.lineno - 1, text, help))

    def _resolve(self, node: ast.expr) -> object:
        """Return the value of a name, or of an attribute of a module or class; None for any other expression."""
        if isinstance(node, ast.Name):
            known = self._names.get(node.id)
            return _BUILTINS.get(node.id) if known is None else known
        if isinstance(node, ast.Attribute):
            holder = self._resolve(node.value)
            if isinstance(holder, type):
                return inspect.getattr_static(holder, node.attr, None)
            if isinstance(holder, ModuleType):
                return vars(holder).get(node.attr)
        return None


_BUILTINS: Final[Mapping[str, object]] = MappingProxyType(
    {"open": open, "list": list, "tuple": tuple, "iter": iter, "enumerate": enumerate}
)


def _list_sources(function: Callable[..., Any]) -> Iterator[_Source]:
    """Yield a function and the functions of its module that it calls, without those whose source is unreadable."""
    queue, seen = [function], set[object]()
    while queue:
        each = queue.pop(0)
        if each in seen or not isinstance(each, FunctionType):
            continue
        seen.add(each)
        try:
            source = _Source(each)
        except (OSError, SyntaxError, TypeError, ValueError):
            continue
        yield source
        queue += source.calls


def _find_name(called: object) -> str:
    """Return the dotted name of a function, with its module; empty without one."""
    bound = getattr(called, "__self__", None)
    called = getattr(called, "__func__", called)
    name = getattr(called, "__qualname__", "")
    owner = getattr(called, "__objclass__", None) or (bound if isinstance(bound, type) else type(bound))
    module = getattr(called, "__module__", None) or (
        bound.__name__ if isinstance(bound, ModuleType) else owner.__module__
    )
    return f"{_PUBLIC.get(module, module)}.{name}" if name else ""


_PUBLIC: Final[Mapping[str, str]] = MappingProxyType(
    {
        "posix": "os",
        "nt": "os",
        "_io": "io",
        "_socket": "socket",
        "_thread": "threading",
        "posixpath": "os.path",
    }
)
"""Modules of C functions, with those that publish them."""


def _makes_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"set", "frozenset"}
    return isinstance(node, ast.Set | ast.SetComp)


def _list_set_names(tree: ast.AST) -> frozenset[str]:
    """List the names that a function binds to sets: by an assignment, or as a parameter with that annotation."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _makes_set(value):
                names.add(name)
            case (
                ast.arg(arg=name, annotation=annotation)
                | ast.AnnAssign(target=ast.Name(id=name), annotation=annotation)
            ) if annotation is not None:
                if ast.unparse(annotation).partition("[")[0] in {"set", "frozenset", "Set", "AbstractSet"}:
                    names.add(name)
    return frozenset(names)
