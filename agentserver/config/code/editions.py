"""Modules of one edition of an organism, and the comparison that decides which the next edition keeps.

A module is kept when its source is unchanged, and so is every project module that it imports, directly or
indirectly. A module that was imported while a handler ran was not seen by any load: it counts as unchanged when its
file was not written since the previous load.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from agentserver.config.code.namespace import (
    Namespace,
    PackageView,
    find_original,
    forget,
    make_root_package,
    own,
    rename,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from agentserver.config.code.userland import Project

_SERVER = __name__.split(".", maxsplit=1)[0]
_IMPORTERS = frozenset({"import_module", "__import__"})


class Source(NamedTuple):
    """Source of a module at the time of its execution.

    Args:
        data: the source; None when it is not known.
        since: seconds since 1970 before which it was read.
    """

    data: bytes | None
    since: float


class Survey(NamedTuple):
    """Modules of a running edition, compared with the current files.

    Args:
        unchanged: modules that the next edition keeps, by plain name.
        sources: their sources.
        replaced: for each other module, the reason why it is not kept.
    """

    unchanged: Mapping[str, ModuleType]
    sources: Mapping[str, Source]
    replaced: Mapping[str, str]


@dataclass(eq=False)
class LoadedModules:
    """Project modules after one load.

    Args:
        project: the directory of the project.
        since: time at which the load began, in seconds since 1970.
        brought: modules that this load or an earlier one with kept modules imported, by plain name.
        sources: the sources of all of them.
        namespace: in which they were imported; None for plain names.
        reasons: reasons why modules of the previous edition were not kept.
    """

    project: Project
    since: float
    brought: frozenset[str]
    sources: Mapping[str, Source]
    namespace: Namespace | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    def present(self) -> Mapping[str, ModuleType]:
        """Return the modules by plain name, including those that a handler has imported since."""
        if self.namespace is not None and not self.namespace.over:
            return self.namespace.modules()
        return list_present(self.project)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names in ``sys.modules`` of the modules that the load imported."""
        space = self.namespace
        if space is None or space.over:
            return tuple(sorted(name for name in self.brought if name in sys.modules))
        return (space.name, *(f"{space.name}.{name}" for name in space.modules()))

    def plain(self, name: str) -> str:
        """Return the name of a module as the project uses it."""
        return name if self.namespace is None else self.namespace.plain(name)

    def compare_survey(self) -> Survey:
        """Compare the modules with their files; an importer of a changed module counts as changed."""
        modules = self.present()
        sources = {name: self._read_source(name, module) for name, module in modules.items()}
        reasons: dict[str, str] = {}
        for name, module in modules.items():
            if (now := _read(module)) is None or now != sources[name].data:
                reasons[name] = f"{self._find_file(module)} {'is gone' if now is None else 'has changed'}"
        requested = {
            name: set(_list_imports(name, modules, sources[name])) | set(_list_names_held(name, modules))
            for name in modules
            if name not in reasons
        }
        news = {name: self._find_news(names, sources[name].since) for name, names in requested.items()}
        reasons |= {name: f"it imports {new}, which is new" for name, new in news.items() if new}
        while found := _find_importers(requested, reasons):
            reasons |= {
                name: _explain_held(reasons[cause], self._find_file(modules[cause]))
                for name, cause in found.items()
            }
        unchanged = {name: module for name, module in modules.items() if name not in reasons}
        return Survey(unchanged, {name: sources[name] for name in unchanged}, reasons)

    def prepare_succession(self, after: LoadedModules) -> Succession:
        """Prepare the transfer of names to the modules of the next organism."""
        replacements, modules = after.present(), self.present()
        reasons = {
            name: after.reasons.get(name, f"{self._find_file(module)} is imported once more")
            for name, module in modules.items()
            if find_original(replacements.get(name, module)) is not find_original(module)
            or name in after.reasons
        }
        return Succession(self, after, modules, reasons)

    def forget(self) -> None:
        """Remove from the process the modules that this load imported."""
        if self.namespace is not None:
            self.namespace.close()
        if self.namespace is None or self.namespace.over:
            forget(self.brought)

    def _read_source(self, name: str, module: ModuleType) -> Source:
        known = self.sources.get(name)
        return known or Source(_read(module) if is_unwritten_since(module, self.since) else None, self.since)

    def _find_file(self, module: ModuleType) -> str:
        return self.project.show(getattr(module, "__file__", None) or module.__name__)

    def _find_news(self, names: Iterable[str], since: float) -> str:
        """Find the file of a module that was missing or different when its importer was loaded."""
        for name in names:
            home = self.project.root.joinpath(*name.split("."))
            for file in (home.with_suffix(".py"), home / "__init__.py"):
                if name not in sys.modules and _read_modification_time(file) > since:
                    return self.project.show(file)
        return ""


def split(
    modules: Mapping[str, ModuleType], sources: Mapping[str, Source], survey: Survey
) -> Iterator[tuple[str, str, int, str]]:
    """Yield each name that refers into a replaced module: name, file, line and reason.

    In the next edition, such an object has an outdated class, or would be registered twice.
    """
    if not survey.replaced:
        return
    search = Search(survey.replaced.keys(), survey.unchanged.keys() | survey.replaced.keys())
    for name, module in modules.items():
        for variable, value in tuple(own(find_original(module)).items()):
            if variable.startswith("__") or _is_submodule(value, f"{name}.{variable}"):
                continue
            found = search.find_first(value)
            if found is not None:
                file = str(getattr(module, "__file__", None) or name)
                line = _find_line(sources[name].data or b"", variable) if name in sources else 1
                yield variable, file, line, format_reason(found, survey.replaced)


def _is_submodule(value: object, name: str) -> bool:
    """Return True for an attribute that is a submodule of its own package."""
    return issubclass(
        type(value), ModuleType
    ) and f".{own(cast('ModuleType', value)).get('__name__')}".endswith(f".{name}")


def format_reason(found: ObjectInUse, replaced: Mapping[str, str]) -> str:
    """Format the reason why an object in use prevents a reload."""
    if not found.module:
        return f"more than {LOOKED} objects, in which a reload cannot look for objects of changed classes"
    return f"{found.name} of {found.module}, which would be another: {replaced[found.module]}"


def _find_line(source: bytes, name: str) -> int:
    """Find the line of a source that begins with a name; defaults to 1."""
    found = re.search(
        rb"^(?:class |def |async def )?" + re.escape(name.encode()) + rb"\b", source, re.MULTILINE
    )
    return 1 if found is None else source.count(b"\n", 0, found.start()) + 1


class Succession(NamedTuple):
    """Transfer of plain names from the modules of one edition to the next.

    Args:
        before: the modules of the running edition.
        after: the modules of the next edition.
        present: of the running edition, each module by plain name.
        replaced: the reason for each module that is not kept.
    """

    before: LoadedModules
    after: LoadedModules
    present: Mapping[str, ModuleType]
    replaced: Mapping[str, str]

    def carry_out(self) -> Callable[[], None]:
        """Transfer the names. Call the result once no handler of the previous edition is running."""
        space = self.after.namespace
        if space is None or space.over:
            return _do_nothing
        earlier, replacements = self.before.namespace, space.modules()
        fresh = {
            name
            for name, each in replacements.items()
            if not isinstance(each, PackageView) and each.__name__ != name
        }
        aside = "" if not self.replaced else make_root_package() if earlier is None else earlier.name
        for name in self.replaced:
            _move(self.present[name], name, f"{aside}.{name}")
        for name, module in replacements.items() if fresh else ():
            if name in fresh or isinstance(module, PackageView):
                rename(module, name)
                sys.modules[name] = module
        self.after.brought |= self.before.brought | fresh
        space.over = True
        return partial(_drop, aside, earlier)


def list_modules_of_load(project: Project, since: float, brought: Iterable[str]) -> LoadedModules:
    """Return the modules of a project after its first load."""
    sources = {
        name: Source(_read(module) if is_unwritten_since(module, since) else None, since)
        for name, module in list_present(project).items()
    }
    return LoadedModules(project, since, frozenset(brought), sources)


def list_modules_of_later_load(
    project: Project, since: float, namespace: Namespace, survey: Survey
) -> LoadedModules:
    """Return the modules of a project after a load next to a running edition."""
    sources = {name: Source(data, since) for name, data in namespace.sources.items()}
    return LoadedModules(
        project, since, frozenset(), {**survey.sources, **sources}, namespace, survey.replaced
    )


def list_present(project: Project) -> Mapping[str, ModuleType]:
    """Return the project modules in the process by plain name."""
    tops = {path.name.partition(".")[0] for path in project.root.iterdir()} - {_SERVER}
    return {
        name: module
        for name, module in sys.modules.copy().items()
        if name.partition(".")[0] in tops
        and issubclass(type(module), ModuleType)
        and project.holds(name, module)
    }


def is_unwritten_since(module: ModuleType, since: float) -> bool:
    """Return True when the file of a module was not written since a moment."""
    file = getattr(module, "__file__", None)
    return file is None or _read_modification_time(Path(file)) <= since


def _read_modification_time(file: Path) -> float:
    """Return the modification time of a file in seconds since 1970; 0 for a missing file."""
    try:
        found = file.stat()
    except OSError:
        return 0.0
    return max(found.st_mtime, found.st_ctime)


def _read(module: ModuleType) -> bytes | None:
    """Read the current source of a module: empty for a package without a file, None for a missing file."""
    file = getattr(module, "__file__", None)
    if file is None:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


def _list_imports(name: str, modules: Mapping[str, ModuleType], source: Source) -> Iterator[str]:
    """List the modules that the source of a module imports anywhere."""
    package = name if hasattr(modules[name], "__path__") else name.rpartition(".")[0]
    try:
        tree = ast.parse(source.data or b"")
    except (SyntaxError, ValueError):  # no source of Python
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
                yield from (one for one in modules if one.startswith(f"{alias.name}."))
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            yield from _find_literal_import(node)


def _find_literal_import(call: ast.Call) -> Iterator[str]:
    """Return the module that a call imports by a literal name."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = call.args[0] if call.args else None
    if name in _IMPORTERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value


def _list_names_held(name: str, modules: Mapping[str, ModuleType]) -> Iterator[str]:
    """List the modules from which a module has imported anything."""
    for value in tuple(own(find_original(modules[name])).values()):
        if issubclass(type(value), ModuleType):
            found = own(value).get("__name__")
        elif issubclass(type(value), type):
            found = type.__getattribute__(value, "__module__")
        else:
            found = value.__module__ if type(value) is FunctionType else ""
        inside = isinstance(found, str) and found.startswith(
            f"{name}."
        )  # Python puts it there, whoever imports it
        if isinstance(found, str) and found in modules and found != name and not inside:
            yield found


def _find_importers(requested: Mapping[str, set[str]], reasons: Mapping[str, str]) -> Mapping[str, str]:
    """Find the modules that import a replaced module, with that module."""
    return {
        name: min(names & reasons.keys())
        for name, names in requested.items()
        if name not in reasons and not names.isdisjoint(reasons)
    }


def _explain_held(reason: str, file: str) -> str:
    return (
        reason
        if reason.startswith("it imports ")
        else f"it imports {file}, which {reason.removeprefix(f'{file} ')}"
    )


def _move(module: ModuleType, name: str, aside: str) -> None:
    """Take the plain name from a module, and rename it."""
    sys.modules[aside] = module
    rename(module, aside)
    if sys.modules.get(name) is module:
        del sys.modules[name]


def _do_nothing() -> None:
    """Do nothing; no module was replaced."""


def _drop(aside: str, space: Namespace | None) -> None:
    """Remove the replaced modules."""
    names = [name for name in sys.modules.copy() if aside and f"{name}.".startswith(f"{aside}.")]
    if space is not None:
        space.close()
    forget(names)


LOOKED: Final = 1_000_000
"""Objects that are looked at."""

_OPEN: Final = frozenset(
    {"builtins", "collections", "functools", "types", "queue", "_queue", "asyncio.queues"}
)
"""Modules whose objects are containers, or hold values for the code that made them."""


class ObjectInUse(NamedTuple):
    """Object, class or function of a module that would be replaced.

    Args:
        name: of the class or function; empty when the search stopped at its bound.
        module: its module, as the project names it.
    """

    name: str
    module: str


class Search:
    """Search of values for references into replaced modules. Looks at each object once.

    Args:
        replaced: the names of those modules.
        project: the names of all modules of the project.
    """

    def __init__(self, replaced: Collection[str], project: Collection[str]) -> None:
        self._replaced, self._project = replaced, project
        modules = [each for each in sys.modules.copy().values() if issubclass(type(each), ModuleType)]
        self._closed = {id(own(each)) for each in modules}
        self._seen: dict[int, object] = {}

    def find_first(self, value: object) -> ObjectInUse | None:
        """Find the first object, reachable from a value, of a replaced module."""
        found, queue = _as_replaced(value, self._replaced), [value]
        while found is None and queue:
            if len(self._seen) > LOOKED:
                return ObjectInUse("", "")
            one = queue.pop()
            for inner in gc.get_referents(one) if _open(one, self._project) else ():
                found = found or self._check_value(inner, queue)
        return found

    def _check_value(self, value: object, queue: list[object]) -> ObjectInUse | None:
        """Return the value if it is of a replaced module; queue any other for the search."""
        if id(value) in self._seen or id(value) in self._closed:
            return None
        found = _as_replaced(value, self._replaced)
        if found is None and gc.is_tracked(value):  # nothing else holds anything
            self._seen[id(value)] = value
            queue.append(value)
        return found


def _as_replaced(value: Any, replaced: Collection[str]) -> ObjectInUse | None:
    """Return the value if it is of a replaced module."""
    if type(value) is FunctionType:
        return ObjectInUse(value.__qualname__, value.__module__) if value.__module__ in replaced else None
    if issubclass(type(value), ModuleType):
        name = own(value).get("__name__")
        return ObjectInUse("the code", str(name)) if name in replaced else None
    itself: Any = value if issubclass(type(value), type) else type(value)
    for kind in type.__getattribute__(itself, "__mro__"):
        home = _find_home(kind)
        if home in replaced:
            return ObjectInUse(type.__getattribute__(kind, "__qualname__"), home)
    return None


def _find_home(kind: Any) -> str:
    """Return the module name of a class."""
    found = type.__getattribute__(kind, "__module__")
    return found if isinstance(found, str) else ""


def _open(value: Any, project: Collection[str]) -> bool:
    """Return True for a value that may refer to objects of the project."""
    kind: Any = type(value)
    if issubclass(kind, ModuleType | FrameType):
        return False
    if kind is FunctionType:
        return value.__module__ in project
    if issubclass(kind, type):
        return _find_home(value) in project
    return _find_home(kind) in _OPEN or any(
        _find_home(each) in project for each in type.__getattribute__(kind, "__mro__")
    )
