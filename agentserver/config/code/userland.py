"""Runs code of the project while its configuration is loaded, and attributes failures.

Modules have their plain names in the process, so two organisms whose projects have different modules of one name
cannot both be loaded: the second one is refused until the modules of the first are forgotten. The project directory
is on the import path during the import only, so handlers import at module level. An organism that is loaded next to
a running edition has its modules in a namespace of their own (``namespace``).
"""

from __future__ import annotations

import ast
import importlib
import os.path
import pkgutil
import re
import sys
import traceback
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from agentserver.config.code.namespace import NOTHING, forget, put_first_on_path
from agentserver.config.findings import did_you_mean
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.functions import find_derived_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.config.code.namespace import Namespace

T = TypeVar("T")

_PACKAGE = Path(__file__).resolve().parents[1]
"""The package's own code, which lies inside the project directory when that is a checkout."""


@dataclass(frozen=True, slots=True)
class Crash:
    """Exception from code of the project."""

    error: BaseException


def attempt(call: Callable[[], T]) -> T | Crash:
    """Run code of the project, and return any exception as a value.

    Only KeyboardInterrupt is propagated, which Python raises in the main thread.
    """
    try:
        return call()
    except (
        BaseException
    ) as error:  # a reload loads beside a server, which no exception of the project's may end
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise
        return Crash(error)


@dataclass(frozen=True, slots=True)
class ResolveFailure:
    """Reason why a dotted path cannot be resolved. ``repeated`` when it was reported before."""

    message: str
    suggestion: str = ""
    repeated: bool = False


class NoFile(NamedTuple):
    """Reason why a name is not a file of the project, and a likely correction."""

    message: str
    suggestion: str


@dataclass(frozen=True, slots=True)
class Project:
    """Directory from which dotted paths resolve.

    Args:
        root: absolute, without symbolic links.
        shown: the same directory as findings call it.
    """

    root: Path
    shown: Path

    def resolve_name(self, name: str) -> Path | None:
        """Resolve a relative name; None for a path outside the project."""
        place = (
            None if "\0" in name else Path(os.path.realpath(self.root / name))
        )  # no error for a loop of links
        return place if place is not None and place.is_relative_to(self.root) else None

    def resolve_file(self, name: str) -> Path | NoFile:
        """Resolve an existing file of the project, or return the message of a finding."""
        place = self.resolve_name(name)
        if place is not None and _is_reachable(place):
            return place
        files = [] if place is None else [each.name for each in place.parent.glob("*") if _is_reachable(each)]
        hint = "" if place is None else did_you_mean(place.name, files)
        return NoFile(f'"{name}" is no file inside the project directory {self.shown}', hint)

    def show(self, file: str | Path) -> str:
        """Format a file as findings name it."""
        real = Path(os.path.realpath(file))
        if not real.is_relative_to(self.root):
            return str(file)
        return os.path.normpath(self.shown / real.relative_to(self.root))

    def explain(self, crash: Crash) -> str:
        """Format a crash as ``file:line: Type: text``, at the innermost line of the project.

        The text of an exception is code of the project as well, and may raise another one.
        """
        text = attempt(lambda: self._format_exception_text(crash.error))
        return "the text of its exception raised as well" if isinstance(text, Crash) else text

    def _format_exception_text(self, error: BaseException) -> str:
        if isinstance(error, SyntaxError) and error.filename:
            return f"{self.show(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if self._owns(frame.filename)]
        text = f"{type(error).__name__}: {error}"
        if not own:
            return text
        line = (
            _find_line_of_field(Path(own[-1].filename), str(error))
            if isinstance(error, PayloadError)
            else None
        )
        return f"{self.show(own[-1].filename)}:{line or own[-1].lineno}: {text}"

    def _owns(self, file: str) -> bool:
        if file.startswith("<"):  # of the interpreter
            return False
        real = Path(os.path.realpath(file))
        foreign = "site-packages" in real.parts or real.is_relative_to(_PACKAGE)
        return real.is_relative_to(self.root) and not foreign

    def list_names(self) -> set[str]:
        """List the top-level modules and packages in the project directory."""
        modules = {path.stem for path in self.root.glob("*.py")}
        return modules | {path.parent.name for path in self.root.glob("*/*.py")}

    def claims(self, name: str) -> bool:
        """Return True when the project directory has a module or package of this name."""
        home = self.root.joinpath(*name.split("."))
        return home.with_suffix(".py").is_file() or (home.is_dir() and any(home.glob("*.py")))

    def holds(self, name: str, module: ModuleType) -> bool:
        """Return True when a module was loaded from its file in the project directory."""
        home = self.root.joinpath(*name.split("."))
        file = getattr(module, "__file__", None)
        places = [os.path.dirname(file)] if file else list(getattr(module, "__path__", ()))  # noqa: PTH120 - text in, text out
        expected = {os.path.realpath(home), os.path.realpath(home.parent)}
        return any(os.path.realpath(place) in expected for place in places)


_FIELD = re.compile(r"(?:[\w<>]+\.)*(?P<name>\w+)\.(?P<field>\w+): ")
_UNDEFINED = re.compile(r"(?:[\w<>]+\.)*(?P<name>\w+): .*\(name '(?P<unknown>\w+)' is not defined\)")


def _find_line_of_field(file: Path, words: str) -> int | None:
    """Find the line of the field that a payload refusal names, or whose type is unknown."""
    found = _FIELD.match(words) or _UNDEFINED.match(words)
    if found is None:
        return None
    parts = found.groupdict()
    classes = (each for each in ast.walk(ast.parse(file.read_bytes())) if isinstance(each, ast.ClassDef))
    declared = (each for one in classes if one.name == parts["name"] for each in one.body)
    fields = (each for each in declared if isinstance(each, ast.AnnAssign))
    return next((each.lineno for each in fields if _is_refused_field(each, **parts)), None)


def _is_refused_field(declared: ast.AnnAssign, name: str, field: str = "", unknown: str = "") -> bool:
    """Return True for the field of that name, or one with the unknown type name."""
    del name
    if unknown:
        return re.search(rf"\b{unknown}\b", ast.unparse(declared.annotation)) is not None
    return isinstance(declared.target, ast.Name) and declared.target.id == field


@dataclass(slots=True)
class Importer:
    """Resolver of the dotted paths of one organism; a failing module is explained once."""

    project: Project
    namespace: Namespace | None = None
    _known: dict[str, ModuleType | ResolveFailure | None] = field(default_factory=dict)
    _before: frozenset[str] = field(default_factory=lambda: frozenset(sys.modules))

    def has(self, name: str) -> bool:
        """Return True when a module of the project was imported under its plain name."""
        if self.namespace is not None:
            return name in self.namespace.modules()
        return name in self.list_brought()

    def list_brought(self) -> tuple[str, ...]:
        """Return the project modules imported since this importer was made, by name in the process.

        This package is never among them, even when the project directory is its checkout.
        """
        if self.namespace is not None:
            return (self.namespace.name, *map(self.namespace.full, self.namespace.modules()))
        own = __name__.partition(".")[0]
        with put_first_on_path(self.project.root):
            return tuple(
                name
                for name, module in sys.modules.copy().items()
                if name not in self._before
                and name.partition(".")[0] != own
                and self.project.holds(name, module)
            )

    def forget(self) -> None:
        """Remove the imported modules from the process; kept modules stay."""
        if self.namespace is None:
            forget(self.list_brought())
        else:
            self.namespace.close()

    def resolve(self, path: str) -> object | ResolveFailure:
        """Import the object of a dotted path: an attribute of a module, or an attribute of that."""
        parts = path.split(".")
        with nullcontext() if self.namespace else put_first_on_path(self.project.root):
            module = self._import_module(parts[0])
            used = 1
            while used < len(parts) - 1 and isinstance(module, ModuleType) and hasattr(module, "__path__"):
                inner = self._import_module(".".join(parts[: used + 1]))
                if inner is None:
                    break
                module, used = inner, used + 1
            if module is None or isinstance(module, ResolveFailure):
                return module or self._refuse_no_module(parts[0])
            return self._find_attribute(module, parts[used:])

    def _import_module(self, name: str) -> ModuleType | ResolveFailure | None:
        """Import one module whose parents are imported. None for a missing module."""
        if name in self._known:
            return self._known[name]
        found = self._import(name)
        self._known[name] = replace(found, repeated=True) if isinstance(found, ResolveFailure) else found
        return found

    def _import(self, name: str) -> ModuleType | ResolveFailure | None:
        full = name if self.namespace is None else self.namespace.full(name)
        importlib.invalidate_caches()
        found = attempt(lambda: importlib.import_module(full))
        if isinstance(found, ModuleType):
            # As when it is loaded for the first time, though a namespace would keep the two apart.
            registered = found if full == name else sys.modules.get(name, found)
            known = not self.project.claims(name) or self.project.holds(name, registered)
            return found if known else ResolveFailure(format_stranger(name, registered))
        error = found.error
        if isinstance(error, ModuleNotFoundError) and error.name == full:
            return None
        return ResolveFailure(f'importing "{name}" failed: {self._plain(self.project.explain(found))}')

    def _plain(self, text: str) -> str:
        return text if self.namespace is None else self.namespace.plain(text)

    def report_strangers(self) -> Iterator[str]:
        """Report imports inside the loaded modules that found a module outside the project."""
        yield from report_strangers(self.project, {} if self.namespace is None else self.namespace.modules())

    def _refuse_no_module(self, name: str) -> ResolveFailure:
        message = f'there is no module "{name}" in {self.project.root} or among the installed packages'
        return ResolveFailure(message, did_you_mean(name, self.project.list_names()))

    def _find_attribute(self, module: ModuleType, names: list[str]) -> object | ResolveFailure:
        value: object = module
        for i, name in enumerate(names):
            holder = value
            found = attempt(partial(getattr, holder, name))
            if isinstance(found, Crash):
                last = i == len(names) - 1
                derived = self._find_derived(holder, name) if last else None
                if derived is None:
                    return self._refuse_no_attribute(holder, name, last=last)
                found = derived
            value = found
        if isinstance(value, ModuleType):
            return ResolveFailure(f'"{self._plain(value.__name__)}" is a module; name something in it')
        return value

    def _find_derived(self, holder: object, name: str) -> type | None:
        """Return the payload class that is derived from a function of a module; None without one."""
        found = attempt(lambda: find_derived_class(holder, name)) if isinstance(holder, ModuleType) else None
        return None if isinstance(found, Crash) else found

    def _refuse_no_attribute(self, holder: object, name: str, *, last: bool) -> ResolveFailure:
        if not isinstance(holder, ModuleType):
            return ResolveFailure(
                f'there is no "{name}" in {_find_name(holder)}', did_you_mean(name, dir(holder))
            )
        inside = {found.name for found in pkgutil.iter_modules(getattr(holder, "__path__", ()))}
        if last and name in inside:
            return ResolveFailure(
                f'"{self._plain(holder.__name__)}.{name}" is a module; name something in it'
            )
        known = inside if not last else {key for key in vars(holder) if not key.startswith("_")} | inside
        place = f" ({self.project.show(holder.__file__)})" if holder.__file__ else ""
        kind = "name" if last else "module"
        if name in known:  # a folder, a pipe or a link that leads nowhere, with the name of a module
            place = f"{place}: {name}.py there is no file"
        return ResolveFailure(
            f'there is no {kind} "{name}" in "{self._plain(holder.__name__)}"{place}',
            did_you_mean(name, known - {name}),
        )


def _is_reachable(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - pathlib's raises where a folder is closed


def _find_name(value: object) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def format_stranger(name: str, module: ModuleType) -> str:
    """Format the message about a module that shadows one of the project."""
    origin = getattr(module, "__file__", None) or next(
        iter(getattr(module, "__path__", ())), "the interpreter"
    )
    return (
        f'this process takes "{name}" from {origin}, not from the project: rename one of them, give the '
        "project's package an __init__.py, or run the organisms in separate processes"
    )


def report_strangers(project: Project, inside: Mapping[str, ModuleType] = NOTHING) -> Iterator[str]:
    """Report imports inside the loaded modules that found a module outside the project.

    ``inside`` are the modules of a namespace, by plain name.
    """
    top = {path.stem for path in project.root.iterdir()}
    loaded = {
        name: module
        for modules in (inside, sys.modules.copy())
        for name, module in modules.items()
        if name.partition(".")[0] in top and project.claims(name)
    }
    foreign = {name: module for name, module in loaded.items() if not project.holds(name, module)}
    if not foreign:
        return
    files = (getattr(loaded[name], "__file__", None) or "" for name in sorted(loaded.keys() - foreign.keys()))
    for file in (file for file in files if file.endswith(".py")):
        imported = _iter_imports(ast.parse(Path(file).read_bytes()))
        for line, imported_name in (
            (line, imported_name) for line, imported_name in imported if imported_name in foreign
        ):
            yield f"{project.show(file)}:{line}: {format_stranger(imported_name, foreign[imported_name])}"


def _iter_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and absolute name of each module that the code may import, including parents."""
    for node in ast.walk(tree):
        for line, name in _iter_statement_imports(node):
            parts = name.split(".")
            yield from ((line, ".".join(parts[: i + 1])) for i in range(len(parts)))


def _iter_statement_imports(node: ast.AST) -> list[tuple[int, str]]:
    """Yield line and full name of the imports of one statement."""
    if isinstance(node, ast.Import):
        return [(node.lineno, alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return []
