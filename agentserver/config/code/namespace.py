"""A namespace of its own for the modules of an organism that is loaded beside another one of the same project.

Owns the names: a module ``listeners.greeter`` of the project stands in ``sys.modules`` below the namespace, as
``edition2.listeners.greeter``, and what its code imports of the project by the plain name is found there too, also when
a handler imports it long after. Everything else about it is as Python does it: packages, relative imports, annotations
that are resolved later, pickling, tracebacks, ``inspect``. Refuses to know what the modules are for.

Code is always compiled from its source: a file that was changed twice in a second may have the old bytecode.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from itertools import count
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import CodeType, ModuleType

_SERVER = __name__.split(".", maxsplit=1)[0]


class Namespace:
    """The modules of one load, as a finder of ``sys.meta_path`` until ``close``.

    Args:
        root: the project directory.

    Code that asks ``importlib`` for a module by its plain name goes past it, and meets what the process has under it.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.name = next(name for name in (f"edition{n}" for n in count(2)) if name not in sys.modules)
        self._owned: dict[str, bool] = {_SERVER: False}
        package = ModuleSpec(self.name, None, is_package=True)
        assert package.submodule_search_locations is not None  # it is a package
        package.submodule_search_locations.append(self._root)
        sys.modules[self.name] = module_from_spec(package)
        sys.meta_path.insert(0, cast("Any", self))
        self._builtins = {**vars(builtins), "__import__": self._imported}

    def owns(self, name: str) -> bool:
        """True when the project directory has the module of this name, or the first part of it, by Python's rules."""
        top = name.partition(".")[0]
        if top not in self._owned:
            found = PathFinder.find_spec(top, [self._root])
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
        """The loaded modules by their plain names."""
        inside = f"{self.name}."
        found = [(name, module) for name, module in sys.modules.copy().items() if name.startswith(inside)]
        return {name.removeprefix(inside): module for name, module in found}

    def close(self) -> None:
        """Take the modules out of the process; who holds one keeps it."""
        if self in sys.meta_path:
            sys.meta_path.remove(cast("Any", self))
        for name in (self.name, *map(self.full, self.modules())):
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
            spec.loader = _Loader(name, str(spec.origin), self._builtins)
        return spec

    def _imported(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """``__import__`` of the project's code."""
        if level:
            self._check_level(str((globals or {}).get("__package__", "")), level)
        elif self.owns(name):
            module = builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
            return module if fromlist else sys.modules[f"{self.name}.{name.partition('.')[0]}"]
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def _check_level(self, package: str, level: int) -> None:
        """Refuse what Python refuses without a namespace: there is nothing above a top-level package."""
        if package.count(".") < level and package.partition(".")[0] == self.name:
            raise ImportError("attempted relative import beyond top-level package")


class _Loader(SourceFileLoader):
    """Loads a module whose imports go through a namespace."""

    def __init__(self, name: str, path: str, own: Mapping[str, Any]) -> None:
        super().__init__(name, path)
        self._own = own

    def get_code(self, fullname: str) -> CodeType:
        """The code of the source as it is now."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        vars(module)["__builtins__"] = self._own
        super().exec_module(module)


def is_namespace(name: str) -> bool:
    """True when a module of this name is the package of a namespace that is open."""
    return any(isinstance(one, Namespace) and one.name == name for one in sys.meta_path)


def forget(names: Iterable[str]) -> None:
    """Drop modules, and the namespaces among them, from the process; who holds a reference keeps what it has."""
    dropped = set(names)
    for finder in [one for one in sys.meta_path if isinstance(one, Namespace) and one.name in dropped]:
        finder.close()
    for name in dropped:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
