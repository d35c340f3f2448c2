"""The modules of one edition of an organism, and which of them the next edition keeps.

Owns the comparison: a module is kept when its source is unchanged and so is every module of the project that it
imports, directly or not. Owns the exchange of names between two editions. Refuses to know what the modules hold.

A module that was imported when a handler ran was seen by no load: it counts as unchanged when its file was not written
since the load before.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, NamedTuple, cast

from agentserver.config.code.held import LOOKED, Held, Search
from agentserver.config.code.namespace import (
    Namespace,
    PackageView,
    forget,
    original,
    own,
    rename,
    root_package,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.config.code.userland import Project

_SERVER = __name__.split(".", maxsplit=1)[0]
_IMPORTERS = frozenset({"import_module", "__import__"})


class Source(NamedTuple):
    """The source of a module as it was executed.

    Args:
        data: the source; None when it is not known.
        since: seconds since 1970 before which it was read.
    """

    data: bytes | None
    since: float


class Survey(NamedTuple):
    """The modules of a running edition, as the files of the project are now.

    Args:
        kept: those that the next edition keeps, by their plain names.
        sources: theirs.
        replaced: why each of the others is not kept.
    """

    kept: Mapping[str, ModuleType]
    sources: Mapping[str, Source]
    replaced: Mapping[str, str]


@dataclass(eq=False)
class LoadedModules:
    """The project's modules after one load.

    Args:
        project: its directory.
        since: seconds since 1970 at which the load began.
        brought: those that this load, or one whose modules were kept, brought into the process, by their plain names.
        sources: of all of them.
        namespace: in which they were imported; None for plain names.
        why: why modules of the edition before were not kept.
    """

    project: Project
    since: float
    brought: frozenset[str]
    sources: Mapping[str, Source]
    namespace: Namespace | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def present(self) -> Mapping[str, ModuleType]:
        """The modules by their plain names, those among them that a handler has imported since."""
        if self.namespace is not None and not self.namespace.over:
            return self.namespace.modules()
        return present(self.project)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in ``sys.modules`` of what the load brought into the process."""
        space = self.namespace
        if space is None or space.over:
            return tuple(sorted(name for name in self.brought if name in sys.modules))
        return (space.name, *(f"{space.name}.{name}" for name in space.modules()))

    def plain(self, name: str) -> str:
        """The name of a module as the project has it."""
        return name if self.namespace is None else self.namespace.plain(name)

    def survey(self) -> Survey:
        """Compare the modules with their files; one that imports a changed one counts as changed."""
        modules = self.present()
        sources = {name: self._source(name, module) for name, module in modules.items()}
        why: dict[str, str] = {}
        for name, module in modules.items():
            if (now := _read(module)) is None or now != sources[name].data:
                why[name] = f"{self._file(module)} {'is gone' if now is None else 'has changed'}"
        asked = {
            name: set(_imports(name, modules, sources[name])) | set(_held(name, modules))
            for name in modules
            if name not in why
        }
        news = {name: self._news(names, sources[name].since) for name, names in asked.items()}
        why |= {name: f"it imports {new}, which is new" for name, new in news.items() if new}
        while found := _infected(asked, why):
            why |= {name: _because(why[cause], self._file(modules[cause])) for name, cause in found.items()}
        kept = {name: module for name, module in modules.items() if name not in why}
        return Survey(kept, {name: sources[name] for name in kept}, why)

    def succeeded(self, after: LoadedModules) -> Succession:
        """The passing of names to the modules of an organism that follows."""
        later, modules = after.present(), self.present()
        why = {
            name: after.why.get(name, f"{self._file(module)} is imported once more")
            for name, module in modules.items()
            if original(later.get(name, module)) is not original(module) or name in after.why
        }
        return Succession(self, after, modules, why)

    def forget(self) -> None:
        """Drop from the process what this load brought into it."""
        if self.namespace is not None:
            self.namespace.close()
        if self.namespace is None or self.namespace.over:
            forget(self.brought)

    def _source(self, name: str, module: ModuleType) -> Source:
        known = self.sources.get(name)
        return known or Source(_read(module) if unwritten(module, self.since) else None, self.since)

    def _file(self, module: ModuleType) -> str:
        return self.project.show(getattr(module, "__file__", None) or module.__name__)

    def _news(self, names: Iterable[str], since: float) -> str:
        """The file of a module that was not there, or was another, when its importer was loaded."""
        for name in names:
            home = self.project.root.joinpath(*name.split("."))
            for file in (home.with_suffix(".py"), home / "__init__.py"):
                if name not in sys.modules and _written(file) > since:
                    return self.project.show(file)
        return ""


def split(
    modules: Mapping[str, ModuleType], sources: Mapping[str, Source], survey: Survey
) -> Iterator[tuple[str, str, int, str]]:
    """Each name of these modules that holds something of one that is replaced: the name, file, line and reason.

    The next edition would meet objects there whose classes are others than its own, or register its own once more.
    """
    search = Search(survey.replaced.keys(), survey.kept.keys() | survey.replaced.keys())
    for name, module in modules.items() if survey.replaced else ():
        for variable, value in tuple(own(original(module)).items()):
            if variable.startswith("__") or _submodule(value, f"{name}.{variable}"):
                continue
            found = search.first(value)
            if found is not None:
                file = str(getattr(module, "__file__", None) or name)
                line = _line(sources[name].data or b"", variable) if name in sources else 1
                yield variable, file, line, reason(found, survey.replaced)


def _submodule(value: object, name: str) -> bool:
    """True for a module that a package has by the name of its own submodule."""
    return issubclass(
        type(value), ModuleType
    ) and f".{own(cast('ModuleType', value)).get('__name__')}".endswith(f".{name}")


def reason(found: Held, replaced: Mapping[str, str]) -> str:
    """The reason why an object in use prevents a reload, as text."""
    if not found.module:
        return f"more than {LOOKED} objects, in which a reload cannot look for objects of changed classes"
    return f"{found.name} of {found.module}, which would be another: {replaced[found.module]}"


def _line(source: bytes, name: str) -> int:
    """The line of a source that begins with a name; the first where none does."""
    found = re.search(
        rb"^(?:class |def |async def )?" + re.escape(name.encode()) + rb"\b", source, re.MULTILINE
    )
    return 1 if found is None else source.count(b"\n", 0, found.start()) + 1


class Succession(NamedTuple):
    """The passing of names from the modules of one edition to those of the next.

    Args:
        before: the modules of the running edition.
        after: those of the next.
        present: of the running edition, each module by its plain name.
        replaced: why those are not kept that are not.
    """

    before: LoadedModules
    after: LoadedModules
    present: Mapping[str, ModuleType]
    replaced: Mapping[str, str]

    def carry_out(self) -> Callable[[], None]:
        """Pass the names on; call the result once no handler of the earlier edition runs any more."""
        space = self.after.namespace
        if space is None or space.over:
            return _nothing
        earlier, later = self.before.namespace, space.modules()
        fresh = {
            name
            for name, each in later.items()
            if not isinstance(each, PackageView) and each.__name__ != name
        }
        aside = "" if not self.replaced else root_package() if earlier is None else earlier.name
        for name in self.replaced:
            _move(self.present[name], name, f"{aside}.{name}")
        for name, module in later.items() if fresh else ():
            if name in fresh or isinstance(module, PackageView):
                rename(module, name)
                sys.modules[name] = module
        self.after.brought |= self.before.brought | fresh
        space.over = True
        return partial(_drop, aside, earlier)


def loaded(project: Project, since: float, brought: Iterable[str]) -> LoadedModules:
    """The modules of a project after its first load, which brought some of them into the process."""
    sources = {
        name: Source(_read(module) if unwritten(module, since) else None, since)
        for name, module in present(project).items()
    }
    return LoadedModules(project, since, frozenset(brought), sources)


def staged(project: Project, since: float, namespace: Namespace, survey: Survey) -> LoadedModules:
    """The modules of a project after a load during which another edition runs."""
    sources = {name: Source(data, since) for name, data in namespace.sources.items()}
    return LoadedModules(
        project, since, frozenset(), {**survey.sources, **sources}, namespace, survey.replaced
    )


def present(project: Project) -> Mapping[str, ModuleType]:
    """The project's modules that the process has, by their plain names."""
    tops = {path.name.partition(".")[0] for path in project.root.iterdir()} - {_SERVER}
    return {
        name: module
        for name, module in sys.modules.copy().items()
        if name.partition(".")[0] in tops
        and issubclass(type(module), ModuleType)
        and project.holds(name, module)
    }


def unwritten(module: ModuleType, since: float) -> bool:
    """True when the file of a module was not written since a moment."""
    file = getattr(module, "__file__", None)
    return file is None or _written(Path(file)) <= since


def _written(file: Path) -> float:
    """The time when a file was written or put into its place, in seconds since 1970; 0 when there is none."""
    try:
        found = file.stat()
    except OSError:
        return 0.0
    return max(found.st_mtime, found.st_ctime)


def _read(module: ModuleType) -> bytes | None:
    """The present source of a module: empty for a package without a file, None when the file is gone."""
    file = getattr(module, "__file__", None)
    if file is None:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


def _imports(name: str, modules: Mapping[str, ModuleType], source: Source) -> Iterator[str]:
    """The names of modules that the source of a module imports, wherever it does."""
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
            yield from _asked(node)


def _asked(call: ast.Call) -> Iterator[str]:
    """The module that a call imports by a literal name."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    first = call.args[0] if call.args else None
    if name in _IMPORTERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield first.value


def _held(name: str, modules: Mapping[str, ModuleType]) -> Iterator[str]:
    """The names of modules that a module has something of: it got that by any kind of import."""
    for value in tuple(own(original(modules[name])).values()):
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


def _infected(asked: Mapping[str, set[str]], why: Mapping[str, str]) -> Mapping[str, str]:
    """The modules that import one that is not kept, and which."""
    return {
        name: min(names & why.keys())
        for name, names in asked.items()
        if name not in why and not names.isdisjoint(why)
    }


def _because(why: str, file: str) -> str:
    return (
        why if why.startswith("it imports ") else f"it imports {file}, which {why.removeprefix(f'{file} ')}"
    )


def _move(module: ModuleType, name: str, aside: str) -> None:
    """Take the plain name from a module, and give it another."""
    sys.modules[aside] = module
    rename(module, aside)
    if sys.modules.get(name) is module:
        del sys.modules[name]


def _nothing() -> None:
    """Nothing was replaced."""


def _drop(aside: str, space: Namespace | None) -> None:
    """Forget the modules that were replaced."""
    names = [name for name in sys.modules.copy() if aside and f"{name}.".startswith(f"{aside}.")]
    if space is not None:
        space.close()
    forget(names)
