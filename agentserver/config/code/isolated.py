"""Checks isolated listeners without importing their code.

Never imports a handler that has its own process, not even for a class in the same module.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from agentserver.config.code.userland import Project
from agentserver.config.findings import Mistakes, Severity, did_you_mean
from agentserver.config.keys.fields import build_value
from agentserver.config.keys.isolation import Isolation
from agentserver.config.keys.models import IncludedFile, OrganismFile
from agentserver.config.organism import BoundListener, Organism, SourceLine, refuse_call
from agentserver.config.validation import merge_limits, parse
from agentserver.config.yaml.secrets import Secrets
from agentserver.config.yaml.sources import Sources, find_project_directory, find_shown_directory
from agentserver.core.blueprint import Listener
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from agentserver.config.findings import ConfigMistake, SourceSpan
    from agentserver.config.keys.isolation import IsolationEntry
    from agentserver.config.keys.models import ListenerEntry
    from agentserver.config.validation import DeclaredListener, ParsedDocument


def read_isolation(declared: DeclaredListener, project: Project, report: Mistakes) -> Isolation | None:
    """Read the isolation of a listener; None after a finding."""
    entry = declared.entry
    isolation, handler = entry.isolation, entry.handler
    assert isolation is not None  # nobody else is looked at
    found = [*_iter_mistakes(declared, project)]
    for key, message, suggestion in found:
        report.add_error(
            ConfigCode.ISOLATION,
            declared.locate(*key, missing=key == ("payload_class",)),
            message,
            suggestion,
        )
    if found or handler is None:
        return None
    return build_value(
        Isolation,
        isolation,
        environment=dict(isolation.env),
        handler=handler,
        payloads=tuple(entry.payload_class or ()),
        replies=tuple(entry.replies or ()),
        settings_class=entry.settings_class,
        settings=entry.settings,
        lifespan=isolation.worker_lifespan,
    )


_Found: TypeAlias = tuple[tuple[str | int, ...], str, str]
"""A mistake: its key, its message and a correction."""


def _iter_mistakes(declared: DeclaredListener, project: Project) -> Iterator[_Found]:
    entry = declared.entry
    isolation = entry.isolation
    assert isolation is not None  # see above
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
    path = find_handler_class(entry)
    if path:
        message = f'"{path}" is in the module of the handler, which the server would import for it'
        yield ("isolation",), message, "put the classes into a module of their own"
    yield from _check_handler_place(entry.handler, isolation, project)
    yield from _check_values(isolation, project)


def find_handler_class(entry: ListenerEntry) -> str:
    """Find a class that is defined in the module of the handler; or an empty text."""
    home = (entry.handler or "").rpartition(".")[0]
    classes = [*(entry.payload_class or ()), *(entry.replies or ()), *filter(None, [entry.settings_class])]
    return next((path for path in classes if path.rpartition(".")[0] == home), "")


def _check_handler_place(path: str, isolation: IsolationEntry, project: Project) -> Iterator[_Found]:
    home, _, name = path.rpartition(".")
    file = _find_file(project.root, home)
    if file is not None:
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError) as error:
            yield ("handler",), f"{project.show(file)}: {type(error).__name__}: {error}", ""
            return
        for message, hint in _explain_unfit(tree, name, project.show(file)):
            yield ("handler",), message, hint
        if isolation.worker_lifespan is None and _asks_for_resource(tree, name):
            message = f"{name} asks for a resource, and its process has none: it has no worker_lifespan"
            yield ("isolation",), message, "name an async context manager: isolation: {worker_lifespan: ...}"
    elif find_spec(home.partition(".")[0]) is None:
        message = f'there is no module "{home}" in {project.root} or among the installed packages'
        yield ("handler",), message, did_you_mean(home, project.list_names())


def _check_values(isolation: IsolationEntry, project: Project) -> Iterator[_Found]:
    proxied = any(name.upper().endswith("_PROXY") for name in isolation.env)
    for name, value in isolation.env.items() if isolation.ports and not proxied else ():
        host = _find_host_name(value)
        if host:
            message = f"there is no DNS behind the wall, so {host} is not found"
            yield ("isolation", "env", name), message, "give an address, or ask a listener that has the net"
    for i, path in enumerate(isolation.read):
        message = explain_unreadable(project, path)
        if message:
            yield ("isolation", "read", i), message, "name the files that it reads, relative to the project"


def explain_unreadable(project: Project, path: str) -> str:
    """Return the reason why a path is not granted; empty when it is."""
    place = project.resolve_name(path)
    if place == project.root:
        return f'"{path}" is the whole project'
    if place is None or not place.exists():
        return f'"{path}" is nothing inside the project directory {project.shown}'
    return ""


def _asks_for_resource(tree: ast.Module, name: str) -> bool:
    """Check whether the code of the handler calls ``resource``."""
    functions = (node for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name == name)
    calls = (each.func for node in functions for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr == "resource" for called in calls)


def _find_host_name(value: str) -> str:
    """Return the host of an address that needs name resolution; empty for an IP address."""
    try:
        host = urlsplit(value).hostname if "://" in value else None
    except ValueError:  # no address at all
        return ""
    try:
        ip_address(host or "::")
    except ValueError:
        return host or ""
    return ""


def _find_file(root: Path, home: str) -> Path | None:
    place = root.joinpath(*home.split("."))
    found = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    return found[0] if found else None


def _explain_unfit(tree: ast.Module, name: str, shown: str) -> Iterator[tuple[str, str]]:
    """Yield the reason why a module does not define such a handler, with a correction."""
    functions = {
        node.name: node for node in tree.body if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
    }
    imports = (node.names for node in tree.body if isinstance(node, ast.ImportFrom))
    brought = {alias.asname or alias.name for names in imports for alias in names}
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    constants = {target.id for target in targets if isinstance(target, ast.Name)}
    if name not in functions and name not in brought | constants:
        yield f'there is no name "{name}" in {shown}', did_you_mean(name, functions)
    elif isinstance(functions.get(name), ast.FunctionDef):
        yield f"{shown}:{functions[name].lineno}: {name} is not async", "write async def"


def check_doors(main: ParsedDocument, declared: Sequence[DeclaredListener], report: Mistakes) -> None:
    """Report each listener with remote workers or chat clients in an organism that has no door."""
    if "http" in main.document.data:
        return
    for each in declared:
        if _is_remote(each):
            message = "its workers come through the door, and there is no http:, which says where the door is"
            report.add_error(ConfigCode.ISOLATION, each.locate("isolation"), message, "add http: {}")
        if each.entry.openai is not False:
            message = (
                "chat clients come through the door, and there is no http:, which says where the door is"
            )
            report.add_error(ConfigCode.OPENAI, each.locate("openai"), message, "add http: {}")


def read_part(
    path: Path, environ: Mapping[str, str], listener: str
) -> tuple[Organism | None, tuple[ConfigMistake, ...]]:
    """Read an organism with only one listener, for its remote workers; or return the mistakes in that part.

    Runs no code of the organism, and does not look for the code of other listeners.

    Args:
        path: of its file.
        environ: what ``${NAME}`` refers to.
        listener: its name.
    """
    report = Mistakes()
    root = find_project_directory(path)
    sources = Sources(root, environ, report)
    sources.read(path)
    models: list[type[IncludedFile]] = [OrganismFile, *[IncludedFile] * len(sources.documents)]
    files = [parse(*pair, report) for pair in zip(sources.documents, models, strict=False)]
    declared = _find(files, listener, report)
    bound = (
        None
        if declared is None
        else _bind_remote(declared, Project(root, find_shown_directory(path, root)), report)
    )
    limits = merge_limits(files, report)
    place, secrets = None if declared is None else declared.locate(), Secrets.of(sources.values)
    findings = report.settle([document.file for document in sources.documents], secrets)
    mistakes = tuple(each for each in findings if each.severity is Severity.ERROR and _concerns(each, place))
    if mistakes or bound is None:
        return None, mistakes
    return Organism(files[0].name, root, (bound,), limits, None, secrets, tuple(sources.files)), ()


def _find(files: Sequence[ParsedDocument], listener: str, report: Mistakes) -> DeclaredListener | None:
    """Find the requested listener; None after a finding."""
    listeners = [each for file in files for each in file.listeners]
    declared = next((each for each in listeners if each.entry.name == listener), None)
    if declared is None:
        near = did_you_mean(listener, (each.entry.name for each in listeners))
        for file in files[:1]:
            span = file.document.locate(("listeners",))
            report.add_error(ConfigCode.NAME, span, f'there is no listener "{listener}"', near)
    elif "isolation" not in declared.faulty and not _is_remote(declared):
        lacks = f'"{listener}" has no isolation: remote, so the server does not wait for its workers'
        report.add_error(ConfigCode.ISOLATION, declared.locate("isolation", missing=True), lacks)
    return declared


def _is_remote(declared: DeclaredListener) -> bool:
    return declared.entry.isolation is not None and declared.entry.isolation.remote


def _concerns(mistake: ConfigMistake, own: SourceSpan | None) -> bool:
    """Return True for a mistake that affects a worker of the listener."""
    begin = mistake.path.partition(".")[0].partition("[")[0]
    if begin in ("", "name", "limits", "include") or mistake.path == "listeners":
        return True
    return own is not None and own.file == mistake.file and f"{mistake.path}.".startswith(f"{own.path}.")


def _bind_remote(declared: DeclaredListener, home: Project, report: Mistakes) -> BoundListener | None:
    if not _is_remote(declared) or "isolation" in declared.faulty:
        return None
    isolation = read_isolation(declared, home, report)
    if isolation is None:
        return None
    entry, span = declared.entry, declared.locate()
    facts = Listener(
        entry.name, (), entry.description, concurrency=entry.concurrency, deadline=entry.deadline
    )
    place = SourceLine(span.file, span.line)
    return BoundListener(facts, refuse_call, None, False, None, place, isolation=isolation)
