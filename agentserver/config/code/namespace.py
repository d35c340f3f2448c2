"""A namespace for the modules of an organism that is loaded while another edition of its project runs.

Owns the names. While an organism is loaded, a changed module ``listeners.greeter`` is ``edition2.listeners.greeter`` in
``sys.modules``, and the imports of its code are looked up there first. Modules that are kept have an entry there as
well: the very module that the running edition has. Once the new edition runs, its modules have the plain names, so that
pickles, logs of tracebacks and imports by a computed name mean them; those that it replaces keep a name with a number
until the last handler of theirs has ended. Refuses to know what the modules are for, and which of them are kept.

Code is always compiled from its source: a file that was changed twice in a second may have the old bytecode.
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
    """The package above the modules of one edition that have no plain names."""


def root_package(*places: str) -> str:
    """Make such a package with these folders; gives its name."""
    name = next(name for name in (f"edition{n}" for n in count(2)) if name not in sys.modules)
    package = sys.modules[name] = RootPackage(name)
    package.__path__ = list(places)
    return name


@contextmanager
def first_on_path(root: Path) -> Iterator[None]:
    """Let the project directory be the first place where Python looks for modules."""
    entry = str(root)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


class PackageView(ModuleType):
    """A package that is kept, with the submodules of one edition.

    Its code and its state are those of ``original``; only its submodules are its own, since those of the earlier
    edition may be others.
    """

    def __init__(self, name: str, original: ModuleType) -> None:
        super().__init__(name)
        mine = own(self)
        del mine["__doc__"]
        spec = ModuleSpec(name, None, is_package=True)
        assert spec.submodule_search_locations is not None  # it is a package
        spec.submodule_search_locations.extend(original.__path__)
        mine |= {"__spec__": spec, "__package__": name, "__path__": spec.submodule_search_locations}
        mine |= {"_original": original, "_plain": name.partition(".")[2]}

    def __getattr__(self, name: str) -> Any:
        """An attribute of the package that is no submodule: of these, the earlier edition may have others."""
        mine = own(self)
        value = getattr(mine["_original"], name)
        if issubclass(type(value), ModuleType):
            home = str(own(value).get("__name__"))
            if f".{home}".endswith(f".{mine['_plain']}.{name}"):
                raise AttributeError(f"module {mine['__name__']!r} has no attribute {name!r}")
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
        """The names of the package and of the submodules."""
        return sorted(self.__dict__)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The attributes of the package and the submodules of this edition, for "import *" and annotations."""
        found = {name: each for name, each in own(own(self)["_original"]).items() if hasattr(self, name)}
        return {**found, **own(self)}


_OWN: Any = vars(ModuleType)["__dict__"]


def own(view: ModuleType) -> dict[str, Any]:
    """The attributes that a module itself has."""
    return cast("dict[str, Any]", _OWN.__get__(view))


def original(module: ModuleType) -> ModuleType:
    """The package that a view shows; any other module is its own."""
    return cast("ModuleType", own(module)["_original"]) if type(module) is PackageView else module


class Namespace:
    """The modules of one load, as a finder of ``sys.meta_path`` until ``close``.

    Args:
        root: the project directory.
        kept: modules that are not imported once more, by their plain names.

    ``over`` is true once nothing is imported into it any more.
    """

    def __init__(self, root: Path, kept: Mapping[str, ModuleType] = NOTHING) -> None:
        self._root = root
        self.name = root_package(str(root))
        self.over = False
        self.sources: dict[str, bytes] = {}
        self._owned: dict[str, bool] = {_SERVER: False}
        sys.meta_path.insert(0, cast("Any", self))
        self._builtins = {**vars(builtins), "__import__": self._imported}
        self._kept = {name: self._shown(name, kept[name]) for name in sorted(kept)}
        for name in self._kept:
            self._attach(name, kept)

    def _shown(self, name: str, module: ModuleType) -> ModuleType:
        """Enter a module that is kept."""
        full = f"{self.name}.{name}"
        shown = PackageView(full, original(module)) if hasattr(module, "__path__") else module
        sys.modules[full] = shown
        return shown

    def _attach(self, name: str, kept: Mapping[str, ModuleType]) -> None:
        """Give a package that is kept a submodule that is, unless it calls something else by that name."""
        parent, _, last = name.rpartition(".")
        has = vars(kept[parent]).get(last) if parent in kept else None
        if issubclass(type(has), ModuleType) and original(cast("ModuleType", has)) is original(kept[name]):
            setattr(self._kept[parent], last, self._kept[name])

    def owns(self, name: str) -> bool:
        """True when the project directory has the module of this name, or the first part of it, by Python's rules."""
        top = name.partition(".")[0]
        if top not in self._owned:
            found = PathFinder.find_spec(top, [str(self._root)])
            # A folder without __init__.py counts only where no real module has its name.
            other = None if found is None or found.loader is not None else PathFinder.find_spec(top)
            self._owned[top] = found is not None and (other is None or other.loader is None)
        return self._owned[top]

    def full(self, name: str) -> str:
        """The name in ``sys.modules`` of what the project calls ``name``."""
        return f"{self.name}.{name}" if self.owns(name) else name

    def plain(self, text: str) -> str:
        """A text with the names as the project calls them."""
        return text.replace(f"{self.name}.", "")

    def modules(self) -> Mapping[str, ModuleType]:
        """The loaded modules by their plain names, those that are kept among them."""
        inside = f"{self.name}."
        found = [(name, module) for name, module in sys.modules.copy().items() if name.startswith(inside)]
        return {name.removeprefix(inside): module for name, module in found}

    def close(self) -> None:
        """Take the modules out of the process; who holds one keeps it."""
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

    def executing(self, module: ModuleType) -> None:
        """Prepare a module whose code is about to run: its imports, and the submodules that are kept."""
        vars(module)["__builtins__"] = self._builtins
        inside = f"{module.__name__.removeprefix(f'{self.name}.')}."
        for name, kept in self._kept.items():
            if name.startswith(inside) and "." not in (last := name.removeprefix(inside)):
                setattr(module, last, kept)

    def _imported(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """``__import__`` of the project's code."""
        around = globals or {"__name__": "" if self.over else f"{self.name}."}
        home = str(around.get("__name__", "")).partition(".")[0]
        if level:
            self._check_level(str(around.get("__package__", "")), level)
        elif self.owns(name):
            apart = isinstance(sys.modules.get(home), RootPackage)
            return (
                _inside(home, name, fromlist or ()) if apart else self._outside(name, around, fromlist or ())
            )
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _outside(self, name: str, around: Mapping[str, Any], fromlist: Sequence[str]) -> Any:
        """Import a module of the project for one that has its plain name."""
        if name.partition(".")[0] in sys.modules:
            return builtins.__import__(name, around, None, fromlist, 0)
        with first_on_path(self._root):
            return builtins.__import__(name, around, None, fromlist, 0)

    def _check_level(self, package: str, level: int) -> None:
        """Refuse what Python refuses without a namespace: there is nothing above a top-level package."""
        if package.count(".") < level and package.partition(".")[0] == self.name:
            raise ImportError("attempted relative import beyond top-level package")


def _inside(home: str, name: str, fromlist: Sequence[str]) -> Any:
    """Import a module of the project for one that has no plain name."""
    parts = name.split(".")
    for i in range(1, len(parts)):  # Python imports no package whose submodule is there
        importlib.import_module(f"{home}.{'.'.join(parts[:i])}")
    module = builtins.__import__(f"{home}.{name}", None, None, fromlist, 0)
    return module if fromlist else sys.modules[f"{home}.{parts[0]}"]


class _Loader(SourceFileLoader):
    """Loads a module whose imports go through a namespace."""

    def __init__(self, name: str, path: str, namespace: Namespace) -> None:
        super().__init__(name, path)
        self._namespace = namespace

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source as it is now."""
        path = self.get_filename(fullname)
        source = self.get_data(path)
        self._namespace.sources.setdefault(self._namespace.plain(fullname), source)
        return self.source_to_code(source, path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        self._namespace.executing(module)
        super().exec_module(module)


def rename(module: ModuleType, name: str) -> None:
    """Give a loaded module, and the classes and functions of its own, another name."""
    mine, was = own(module), module.__name__
    for value in tuple(mine.values()):
        _relabel(value, was, name)
    mine["__name__"], spec = name, mine.get("__spec__")
    mine["__package__"] = name if "__path__" in mine else name.rpartition(".")[0]
    if spec is not None:
        spec.name = name
    if isinstance(mine.get("__loader__"), SourceFileLoader):
        mine["__loader__"].name = name


def _relabel(value: object, was: str, name: str) -> None:
    """Say of a class or function by which name its module is found; no code of the project is asked."""
    if issubclass(type(value), type):
        if type.__getattribute__(cast("type", value), "__module__") == was:
            type.__setattr__(cast("type", value), "__module__", name)
            for inner in tuple(type.__getattribute__(cast("type", value), "__dict__").values()):
                _relabel(inner, was, name)
    elif type(value) is FunctionType and value.__module__ == was:
        value.__module__ = name


def forget(names: Iterable[str]) -> None:
    """Drop modules from the process; who holds a reference keeps what it has."""
    for name in set(names):
        sys.modules.pop(name, None)
    sweep()


def sweep() -> None:
    """Close the namespaces that are over and have no modules."""
    for finder in [one for one in sys.meta_path if isinstance(one, Namespace)]:
        if finder.over and not finder.modules():
            finder.close()
    importlib.invalidate_caches()
