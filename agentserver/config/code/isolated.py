"""The code of listeners that have a process of their own, looked at without being run.

Owns what can be said of a handler that the server never imports: that its module is there and has such a function.
Refuses to import it, and to let the server import it for a class that stands beside it.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from agentserver.config.findings import did_you_mean
from agentserver.config.organism import Isolation
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentserver.config.code.userland import Project
    from agentserver.config.findings import Mistakes
    from agentserver.config.keys.isolation import IsolationEntry
    from agentserver.config.keys.models import ListenerEntry
    from agentserver.config.validation import DeclaredListener


def isolated(declared: DeclaredListener, project: Project, report: Mistakes) -> Isolation | None:
    """The process that a listener asks for; None after a finding."""
    entry = declared.entry
    asked, handler = entry.isolation, entry.handler
    assert asked is not None  # nobody else is looked at
    found = [*_mistakes(declared, project)]
    for key, message, suggestion in found:
        report.error(
            ConfigCode.ISOLATION, declared.where(*key, missing=key == ("payload_class",)), message, suggestion
        )
    if found or handler is None:
        return None
    return Isolation(
        memory=asked.memory,
        cpu=asked.cpu,
        files=asked.files,
        disk=asked.disk,
        read=tuple(asked.read),
        scratch=asked.scratch,
        ports=tuple(asked.ports),
        recycle=asked.recycle,
        warm=asked.warm,
        environment=dict(asked.env),
        handler=handler,
        payloads=tuple(entry.payload_class or ()),
        replies=tuple(entry.replies or ()),
        settings_class=entry.settings_class,
        settings=entry.settings,
        lifespan=asked.worker_lifespan,
        remote=asked.remote,
    )


_Found: TypeAlias = tuple[tuple[str | int, ...], str, str]
"""A mistake: its key, its message and a correction."""


def _mistakes(declared: DeclaredListener, project: Project) -> Iterator[_Found]:
    entry = declared.entry
    asked = entry.isolation
    assert asked is not None  # see above
    if entry.handler is None:
        yield ("isolation",), "an agent that is made of a model has no code to run elsewhere", "leave it out"
        return
    if not entry.payload_class and "payload_class" not in declared.faulty:
        yield (
            ("payload_class",),
            "is missing: the server does not import the handler that names it",
            "name it here",
        )
    if entry.schema_file is not None:
        yield ("schema",), "a process of its own takes no hand-written schema", "bind it to the class"
    path = beside_handler(entry)
    if path:
        told = f'"{path}" stands in the handler\'s module, which the server would import for it'
        yield ("isolation",), told, "put the classes into a module of their own"
    yield from _of_handler(entry.handler, asked, project)
    yield from _of_values(asked, project)


def beside_handler(entry: ListenerEntry) -> str:
    """Name a class that stands in the handler's module; empty when there is none."""
    home = (entry.handler or "").rpartition(".")[0]
    classes = [*(entry.payload_class or ()), *(entry.replies or ()), *filter(None, [entry.settings_class])]
    return next((path for path in classes if path.rpartition(".")[0] == home), "")


def _of_handler(path: str, asked: IsolationEntry, project: Project) -> Iterator[_Found]:
    home, _, name = path.rpartition(".")
    file = _file(project.root, home)
    if file is not None:
        yield from (((("handler",)), told, hint) for told, hint in _unfit(file, name, project.show(file)))
        if asked.worker_lifespan is None and _needy(file, name):
            told = f"{name} asks for a resource, and its process has none: it has no worker_lifespan"
            yield ("isolation",), told, "name an async context manager: isolation: {worker_lifespan: ...}"
    elif find_spec(home.partition(".")[0]) is None:
        told = f'there is no module "{home}" in {project.root} or among the installed packages'
        yield ("handler",), told, did_you_mean(home, project.names())


def _of_values(asked: IsolationEntry, project: Project) -> Iterator[_Found]:
    proxied = any(name.upper().endswith("_PROXY") for name in asked.env)
    for name, value in asked.env.items() if asked.ports and not proxied else ():
        host = _nameless(value)
        if host:
            told = f"there is no DNS behind the wall, so {host} is not found"
            yield ("isolation", "env", name), told, "give an address, or ask a listener that has the net"
    for i, path in enumerate(asked.read):
        told = unreadable(project, path)
        if told:
            yield ("isolation", "read", i), told, "name what it reads, relative to the project"


def unreadable(project: Project, path: str) -> str:
    """The reason why a path is not granted; empty when it is."""
    place = project.inside(path)
    if place == project.root:
        return f'"{path}" is the whole project'
    if place is None or not place.exists():
        return f'"{path}" is nothing inside the project directory {project.shown}'
    return ""


def _needy(file: Path, name: str) -> bool:
    """True when the handler's own code calls ``resource``."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # told of elsewhere
        return False
    made = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name == name)
    calls = (each.func for node in made for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr == "resource" for called in calls)


def _nameless(value: str) -> str:
    """The host of an address whose name has to be looked up; empty where there is none."""
    try:
        host = urlsplit(value).hostname if "://" in value else None
    except ValueError:  # no address at all
        return ""
    try:
        ip_address(host or "::")
    except ValueError:
        return host or ""
    return ""


def _file(root: Path, home: str) -> Path | None:
    place = root.joinpath(*home.split("."))
    found = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    return found[0] if found else None


def _unfit(file: Path, name: str, shown: str) -> Iterator[tuple[str, str]]:
    """The reason why a module has no such handler, as far as reading it tells."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        yield f"{shown}: {type(error).__name__}: {error}", ""
        return
    made = {node.name: node for node in tree.body if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)}
    imports = (node.names for node in tree.body if isinstance(node, ast.ImportFrom))
    brought = {alias.asname or alias.name for names in imports for alias in names}
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    named = {target.id for target in targets if isinstance(target, ast.Name)}
    if name not in made and name not in brought | named:
        yield f'there is no name "{name}" in {shown}', did_you_mean(name, made)
    elif isinstance(made.get(name), ast.FunctionDef):
        yield f"{shown}:{made[name].lineno}: {name} is not async", "write async def"
