"""A namespace for the modules of an organism that is loaded while another edition of its project runs.

While an organism is loaded, a changed module ``listeners.greeter`` is ``edition2.listeners.greeter`` in
``sys.modules``, and the imports of its code are looked up there first. Kept modules have an entry there as well: the
same module that the running edition has. Once the new edition runs, its modules get the plain names, so that pickles,
tracebacks and computed imports refer to them; replaced modules keep a numbered name until their last handler has
ended.

Code is always compiled from its source: a file that was changed twice within a second may have outdated bytecode.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import count
from types import FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import CodeType

_SERVER = __name__.split(".", maxsplit=1)[0]

NOTHING: Mapping[str, ModuleType] = MappingProxyType({})


class RootPackage(ModuleType):
    """Package above the modules of one edition that have no plain names."""


def make_root_package(*places: str) -> str:
    """Make such a package with these folders. Returns its name."""
    name = next(name for name in (f"edition{n}" for n in count(2)) if name not in sys.modules)
    package = sys.modules[name] = RootPackage(name)
    package.__path__ = list(places)
    return name


@contextmanager
def put_first_on_path(root: Path) -> Iterator[None]:
    """Put the project directory first on the import path."""
    entry = str(root)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


class PackageView(ModuleType):
    """Kept package, with the submodules of one edition.

    Code and state are those of the original module; only the submodules differ, since the running edition may have
    other ones.
    """

    def __init__(self, name: str, original: ModuleType) -> None:
        super().__init__(name)
        attributes = own(self)
        del attributes["__doc__"]
        spec = ModuleSpec(name, None, is_package=True)
        assert spec.submodule_search_locations is not None  # it is a package
        spec.submodule_search_locations.extend(original.__path__)
        attributes |= {"__spec__": spec, "__package__": name, "__path__": spec.submodule_search_locations}
        attributes |= {"_original": original, "_plain": name.partition(".")[2]}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the package that is not a submodule: the running edition may have other ones."""
        attributes = own(self)
        value = getattr(attributes["_original"], name)
        if issubclass(type(value), ModuleType):
            home = str(own(value).get("__name__"))
            if f".{home}".endswith(f".{attributes['_plain']}.{name}"):
                raise AttributeError(f"module {attributes['__name__']!r} has no attribute {name!r}")
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of the package, or a submodule of this edition."""
        if name.startswith("__") or (
            value is not None and sys.modules.get(f"{self.__name__}.{name}") is value
        ):
            own(self)[name] = value
        else:
            setattr(own(self)["_original"], name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the package, or a submodule of this edition."""
        if name in own(self):
            del own(self)[name]
        else:
            delattr(own(self)["_original"], name)

    def __dir__(self) -> Iterable[str]:
        """List the names of the package and of the submodules."""
        return sorted(self.__dict__)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the attributes of the package and the submodules of this edition, for "import *" and annotations."""
        found = {name: each for name, each in own(own(self)["_original"]).items() if hasattr(self, name)}
        return {**found, **own(self)}


_OWN: Any = vars(ModuleType)["__dict__"]


def own(view: ModuleType) -> dict[str, Any]:
    """Return the attributes of a module itself."""
    return cast("dict[str, Any]", _OWN.__get__(view))


def find_original(module: ModuleType) -> ModuleType:
    """Return the package behind a view; any other module is returned as it is."""
    return cast("ModuleType", own(module)["_original"]) if type(module) is PackageView else module


class Namespace:
    """Modules of one load, as a finder of ``sys.meta_path`` until ``close``.

    Args:
        root: the project directory.
        unchanged: modules that are not imported again, by plain name.

    ``over`` is true after the last import into it.
    """

    def __init__(self, root: Path, unchanged: Mapping[str, ModuleType] = NOTHING) -> None:
        self._root = root
        self.name = make_root_package(str(root))
        self.over = False
        self.sources: dict[str, bytes] = {}
        self._owned: dict[str, bool] = {_SERVER: False}
        sys.meta_path.insert(0, cast("Any", self))
        self._builtins = {**vars(builtins), "__import__": self._import_for}
        self._unchanged = {name: self._add_kept(name, unchanged[name]) for name in sorted(unchanged)}
        for name in self._unchanged:
            self._attach(name, unchanged)

    def _add_kept(self, name: str, module: ModuleType) -> ModuleType:
        """Add a kept module."""
        full = f"{self.name}.{name}"
        shown = PackageView(full, find_original(module)) if hasattr(module, "__path__") else module
        sys.modules[full] = shown
        return shown

    def _attach(self, name: str, unchanged: Mapping[str, ModuleType]) -> None:
        """Set a kept submodule on a kept package, unless the package uses that name otherwise."""
        parent, _, last = name.rpartition(".")
        has = vars(unchanged[parent]).get(last) if parent in unchanged else None
        if issubclass(type(has), ModuleType) and find_original(cast("ModuleType", has)) is find_original(
            unchanged[name]
        ):
            setattr(self._unchanged[parent], last, self._unchanged[name])

    def owns(self, name: str) -> bool:
        """Return True when the project directory has this module or its first part, by the rules of Python."""
        top = name.partition(".")[0]
        if top not in self._owned:
            found = PathFinder.find_spec(top, [str(self._root)])
            # A folder without __init__.py counts only where no real module has its name.
            other = None if found is None or found.loader is not None else PathFinder.find_spec(top)
            self._owned[top] = found is not None and (other is None or other.loader is None)
        return self._owned[top]

    def full(self, name: str) -> str:
        """Return the name in ``sys.modules`` of a module of the project."""
        return f"{self.name}.{name}" if self.owns(name) else name

    def plain(self, text: str) -> str:
        """Replace full names in a text by plain ones."""
        return text.replace(f"{self.name}.", "")

    def modules(self) -> Mapping[str, ModuleType]:
        """Return the loaded modules by plain name, including kept ones."""
        inside = f"{self.name}."
        found = [(name, module) for name, module in sys.modules.copy().items() if name.startswith(inside)]
        return {name.removeprefix(inside): module for name, module in found}

    def close(self) -> None:
        """Remove the modules from the process; references to them stay valid."""
        if self in sys.meta_path:
            sys.meta_path.remove(cast("Any", self))
        for name in (self.name, *(f"{self.name}.{name}" for name in self.modules())):
            sys.modules.pop(name, None)

    # For Python

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the namespace where its package looks."""
        if path is None or not name.startswith(f"{self.name}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, str(spec.origin), self)
        return spec

    def prepare_module(self, module: ModuleType) -> None:
        """Prepare a module for execution: its imports and its kept submodules."""
        vars(module)["__builtins__"] = self._builtins
        inside = f"{module.__name__.removeprefix(f'{self.name}.')}."
        for name, unchanged in self._unchanged.items():
            if name.startswith(inside) and "." not in (last := name.removeprefix(inside)):
                setattr(module, last, unchanged)

    def _import_for(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Replace ``__import__`` for the code of the project."""
        around = globals or {"__name__": "" if self.over else f"{self.name}."}
        home = str(around.get("__name__", "")).partition(".")[0]
        if level:
            self._check_level(str(around.get("__package__", "")), level)
        elif self.owns(name):
            is_separate = isinstance(sys.modules.get(home), RootPackage)
            if is_separate:
                return _import_inside(home, name, fromlist or ())
            return self._import_outside(name, around, fromlist or ())
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _import_outside(self, name: str, around: Mapping[str, Any], fromlist: Sequence[str]) -> Any:
        """Import a module of the project for an importer with a plain name."""
        if name.partition(".")[0] in sys.modules:
            return builtins.__import__(name, around, None, fromlist, 0)
        with put_first_on_path(self._root):
            return builtins.__import__(name, around, None, fromlist, 0)

    def _check_level(self, package: str, level: int) -> None:
        """Refuse a relative import above a top-level package, as Python does."""
        if package.count(".") < level and package.partition(".")[0] == self.name:
            raise ImportError("attempted relative import beyond top-level package")


def _import_inside(home: str, name: str, fromlist: Sequence[str]) -> Any:
    """Import a module of the project for an importer without a plain name."""
    parts = name.split(".")
    for i in range(1, len(parts)):  # Python imports no package whose submodule is there
        importlib.import_module(f"{home}.{'.'.join(parts[:i])}")
    module = builtins.__import__(f"{home}.{name}", None, None, fromlist, 0)
    return module if fromlist else sys.modules[f"{home}.{parts[0]}"]


class _Loader(SourceFileLoader):
    """Loader of a module whose imports go through a namespace."""

    def __init__(self, name: str, path: str, namespace: Namespace) -> None:
        super().__init__(name, path)
        self._namespace = namespace

    def get_code(self, fullname: str) -> CodeType:
        """Compile the current source."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self._namespace.sources.setdefault(self._namespace.plain(fullname), source)
        return self.source_to_code(source, path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        self._namespace.prepare_module(module)
        super().exec_module(module)


def rename(module: ModuleType, name: str) -> None:
    """Rename a loaded module, and the ``__module__`` of its classes and functions."""
    attributes, was = own(module), module.__name__
    for value in tuple(attributes.values()):
        _relabel(value, was, name)
    attributes["__name__"], spec = name, attributes.get("__spec__")
    attributes["__package__"] = name if "__path__" in attributes else name.rpartition(".")[0]
    if spec is not None:
        spec.name = name
    if isinstance(attributes.get("__loader__"), SourceFileLoader):
        attributes["__loader__"].name = name


def _relabel(value: object, was: str, name: str) -> None:
    """Set ``__module__`` of a class or function, without running code of the project."""
    if issubclass(type(value), type):
        if type.__getattribute__(cast("type", value), "__module__") == was:
            type.__setattr__(cast("type", value), "__module__", name)
            for inner in tuple(type.__getattribute__(cast("type", value), "__dict__").values()):
                _relabel(inner, was, name)
    elif type(value) is FunctionType and value.__module__ == was:
        value.__module__ = name
        for inner in tuple(vars(value).values()):  # the classes that are derived from its signature
            _relabel(inner, was, name)


def forget(names: Iterable[str]) -> None:
    """Remove modules from the process; references to them stay valid."""
    for name in set(names):
        sys.modules.pop(name, None)
    sweep()


def sweep() -> None:
    """Close the namespaces that are finished and have no modules."""
    for finder in [one for one in sys.meta_path if isinstance(one, Namespace)]:
        if finder.over and not finder.modules():
            finder.close()
    importlib.invalidate_caches()
