"""``agentserver init``: creates a project that runs at once, and the files that turn it into a service.

The templates are in scaffold/: common/ for every project, and a folder for each template. File names end in ``.txt``
there so that no tool takes them for part of this package; ``@name@`` is replaced by the project's name. deploy/ has the
texts of a service, pins.json the tested versions (written by .ci/pins.py). No package index is asked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from enum import StrEnum
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

    from agentserver.config import Organism
    from agentserver.config.keys.endpoints import HttpEntry

SUFFIX = ".txt"
SCHEMA = Path("config/organism.schema.json")
COMMON = "common"
RESERVED = frozenset({"agentserver", "agentserver-xml"})
"""Names that would clash with the server's own distribution."""
UNNAMED = "first-organism"
"""Name of a project in a directory from whose name none can be derived."""


class ProjectTemplate(StrEnum):
    """Templates of projects."""

    TOOLS = "tools"
    AGENT = "agent"
    SECURE_DESK = "secure-desk"
    HANDOFF = "handoff"


_EXTRA = {ProjectTemplate.SECURE_DESK: "[provenance]"}
"""Extra of agentserver that a template needs."""


@click.command("init", short_help="Create a project that runs at once.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--template",
    type=click.Choice([*map(str, ProjectTemplate)]),
    default=str(ProjectTemplate.TOOLS),
    show_default=True,
    help="Two typed tools; an agent with tools; a desk that is attacked; work handed over in a closed vocabulary.",
)
@click.option("--name", help="Name of the project; the directory's by default.")
@click.option(
    "--force", is_flag=True, help="Overwrite existing files, and write into a directory that is not empty."
)
@click.option(
    "--deploy",
    is_flag=True,
    help="Write a systemd unit, a Containerfile and a lock file with hashes.",
)
@click.option(
    "--extra",
    "extras",
    multiple=True,
    help="With --deploy: an extra that the project's code needs; may be repeated.",
)
def command(
    directory: Path, template: str, name: str | None, *, force: bool, deploy: bool, extras: tuple[str, ...]
) -> None:
    """Create a project in DIRECTORY: an organism, its listeners, tests, a pyproject.toml, a file for CI.

    It runs at once, without an API key or a network, and its tests pass. No package index is asked for
    agentserver: the pyproject.toml says how to install it.

    With --deploy it also writes the files in deploy/. Nothing else of an existing project in DIRECTORY changes;
    its lock is rewritten, its unit and Containerfile only with --force. The lock lists what the
    organism needs to be served, in the versions with which agentserver was tested, and names no package index.
    """
    if extras and not deploy:
        raise click.UsageError("--extra is for the lock that --deploy writes")
    existing = next(
        (directory / each for each in project.DEFAULTS if project.is_file(directory / each)), None
    )
    if not (deploy and existing):
        _write_project(directory, ProjectTemplate(template), name, force=force)
    if deploy:
        _write_deployment(existing or directory / project.DEFAULTS[0], extras, force=force)
    click.echo()
    project.say(f"Now:  cd {shlex.quote(str(directory))} && agentserver {'serve' if deploy else 'run'}")


def _write_project(directory: Path, template: ProjectTemplate, name: str | None, *, force: bool) -> None:
    """Write the files of a new project."""
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise click.UsageError(f"{directory} is not empty; use --force to write anyway")
    valid_name = derive_project_name(directory.resolve().name if name is None else name)
    if name is not None and not valid_name:
        raise click.UsageError(f"{name!r} contains no valid project name: choose another with --name")
    for path, text in (*scaffold(template, valid_name or UNNAMED), (SCHEMA, read_editor_schema())):
        project.write(directory / path, text)
        project.say(f"wrote {directory / path}")


def _write_deployment(path: Path, extras: tuple[str, ...], *, force: bool) -> None:
    """Write the files that turn the organism into a service."""
    from agentserver.config import forget

    organism = project.load(path)
    forget(organism)  # only its YAML is needed, none of its code
    if organism.door is None:
        project.refuse(f"{path}: has no http:, the address of a service; add a line 'http: {{}}'")
    with project.refuse_on(ValueError):
        lock = make_lock(organism, extras)
        texts = [*iter_deployment_files(organism)]
    folder = path.parent.parent if path.parent.name == "config" else path.parent
    for relative, text in texts:
        existing = not force and (folder / relative).exists()
        if not existing:
            project.write(folder / relative, text)
        project.say(f"{'kept' if existing else 'wrote'} {folder / relative}")
    project.write(folder / LOCK, lock.text)
    project.say(f"wrote {folder / LOCK}")
    if lock.missing:
        reason = f"{folder / LOCK}: has no pin for {', '.join(lock.missing)} of pyproject.toml"
        project.refuse(f"{reason}; add one with its hashes (uv pip compile --generate-hashes writes them)")


def derive_project_name(text: str) -> str:
    """Derive a project's name from a text: letters, digits and hyphens. Empty if nothing is left or it is reserved."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-")
    return "" if name in RESERVED else name


def read_editor_schema() -> str:
    """Read the schema of an organism's file from the package, or in a checkout from the folder next to it."""
    package = files("agentserver")
    packed = package / "schemas" / SCHEMA.name
    in_checkout = Path(str(package)).resolve().parent / "schemas" / SCHEMA.name
    return (packed if packed.is_file() else in_checkout).read_text(encoding="utf-8")


def scaffold(template: ProjectTemplate, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a project: path and text."""
    texts = files("agentserver.cli") / "scaffold"
    for folder in (COMMON, template):
        for path, text in _walk(texts / folder, Path()):
            yield path, text.replace("@name@", name).replace("@extra@", _EXTRA.get(template, ""))


def _walk(folder: Traversable, below: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, below / entry.name)
        else:
            yield below / entry.name.removesuffix(SUFFIX), entry.read_text(encoding="utf-8")


FOLDER: Final = Path("deploy")
LOCK: Final = FOLDER / "requirements.lock"
TOOLS: Final = frozenset({"agentserver.tools.fetch", "agentserver.tools.mail"})
"""Modules of ready-made tools that need the extra ``tools``."""

HEAD: Final = """\
# Packages that this project needs to be served, with the hash of each file: {extras}.
# Versions with which agentserver was tested; for Python 3.11 to 3.13 on Linux.
# To update it: install the new agentserver, then run agentserver init --deploy{options} in the project.
"""


def _uses_tools(organism: Organism) -> bool:
    modules = {getattr(bound.handler, "__module__", "") for bound in organism.listeners}
    walled = {bound.isolation.handler.rpartition(".")[0] for bound in organism.listeners if bound.isolation}
    return not TOOLS.isdisjoint(modules | walled)


def _uses_models(organism: Organism) -> bool:
    declared = organism.models
    return declared is not None and any(one.provider != "scripted" for one in declared.backends.values())


NEEDED: Final[dict[str, Callable[[Organism], bool]]] = {
    "agui": lambda organism: organism.door is not None and organism.door.agui,
    "handoff": lambda organism: organism.handoffs is not None,
    "http": lambda organism: organism.door is not None,
    "llm": _uses_models,
    "mcp": lambda organism: bool(organism.mcp) or organism.serving is not None,
    "otel": lambda organism: organism.otel is not None and organism.otel.declared,
    "postgres": lambda organism: organism.engine is not None,
    "provenance": lambda organism: organism.provenance is not None,
    "tools": _uses_tools,
}
"""Extras that a served organism may need, with the condition for each."""


class Pins(NamedTuple):
    """Tested version of each package.

    Args:
        extras: packages of each extra, such as ``xsdata[cli]``; those of the server itself under "".
        locks: lines of a lock file, by package.
        needs: dependencies of each package, alone and with an extra.
    """

    extras: dict[str, list[str]]
    locks: dict[str, str]
    needs: dict[str, list[str]]

    def list_closure(self, names: Iterable[str]) -> set[str]:
        """List these packages and their transitive dependencies."""
        queue, seen = list(names), set[str]()
        while queue:
            name = queue.pop()
            if name not in seen:
                seen.add(name)
                queue += self.needs.get(name, ())
        return {name.partition("[")[0] for name in seen}


def read_tested_pins() -> Pins:
    """Read the pins with which this version of agentserver was tested."""
    found = json.loads((files("agentserver.cli") / "scaffold" / "pins.json").read_text(encoding="utf-8"))
    return Pins(**found)


class Lock(NamedTuple):
    """Lock file of a project.

    Args:
        text: content.
        missing: packages of the project for which there is no pin.
    """

    text: str
    missing: tuple[str, ...]


def list_extras(organism: Organism) -> frozenset[str]:
    """List the extras that an organism needs while it is served."""
    return frozenset(extra for extra, needs in NEEDED.items() if needs(organism))


def make_lock(organism: Organism, others: Iterable[str]) -> Lock:
    """Pin what an organism needs to be served.

    Args:
        organism: loaded.
        others: further extras that its code needs.

    Raises:
        ValueError: an extra is unknown, or pyproject.toml cannot be used.
    """
    pins, chosen = read_tested_pins(), frozenset(others)
    for extra in chosen - set(pins.extras):
        raise ValueError(
            f"there is no extra {extra}; there are: {', '.join(sorted(filter(None, pins.extras)))}"
        )
    extras = list_extras(organism) | chosen
    own = [*_iter_own_dependencies(organism.project / "pyproject.toml")]
    names = {name for extra in ("", *extras) for name in pins.extras[extra]} | (set(own) & set(pins.locks))
    options = "".join(f" --extra {extra}" for extra in sorted(chosen))
    head = HEAD.format(extras=", ".join(["agentserver", *sorted(extras)]), options=options)
    text = head + "".join(pins.locks[name] for name in sorted(pins.list_closure(names)))
    return Lock(text, tuple(name for name in own if name not in pins.locks))


def _iter_own_dependencies(path: Path) -> Iterator[str]:
    """Yield the project's own dependencies, normalized as package indexes do. Raises ValueError."""
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except OSError:
        return
    except ValueError as error:
        raise ValueError(f"{path}: is not TOML: {error}") from None
    if not isinstance(project, dict):
        raise ValueError(f"{path}: project: is not a table")  # noqa: TRY004 - concerns the file, not an argument
    dependencies = project.get("dependencies", [])
    if not isinstance(dependencies, list):
        raise ValueError(f"{path}: project.dependencies: is not a list")  # noqa: TRY004 - as above
    for each in dependencies:
        found = re.match(r"\s*([A-Za-z0-9][\w.-]*)", each, re.ASCII) if isinstance(each, str) else None
        if found is None:
            raise ValueError(f"{path}: project.dependencies: {each!r} is not the name of a package")
        yield re.sub(r"[-_.]+", "-", found[1]).lower()


def iter_deployment_files(organism: Organism) -> Iterator[tuple[Path, str]]:
    """Yield the unit, the Containerfile and the ignore file of a build: path and text.

    Raises:
        ValueError: the organism binds no fixed port.
    """
    from agentserver.config.keys.endpoints import LOCAL, HttpEntry

    served = Path(os.path.realpath(organism.files[0])).relative_to(organism.project).as_posix()
    folder = files("agentserver.cli") / "scaffold" / "deploy"
    door = organism.door or HttpEntry()
    if not door.port:
        raise ValueError(
            f'{organism.files[0]}: http.bind: port 0 changes at each start; choose one, such as "{LOCAL}"'
        )
    container = {
        "@organism@": json.dumps(served),
        "@port@": str(door.port),
        "@check@": json.dumps(_write_health_check(door)),
    }
    for name, path, values in (
        (
            "agentserver.service.txt",
            FOLDER / "agentserver.service",
            {"@organism@": _quote_systemd_word(served)},
        ),
        ("Containerfile.txt", FOLDER / "Containerfile", container),
        ("dockerignore.txt", Path(".dockerignore"), {}),
    ):
        text = (folder / name).read_text(encoding="utf-8")
        replacements = {"@name@": organism.name, **values}
        yield path, re.sub("|".join(replacements), partial(_substitute, replacements), text)


def _substitute(values: Mapping[str, str], found: re.Match[str]) -> str:
    return values[found[0]]


def _write_health_check(door: HttpEntry) -> str:
    """Write the Python health check for the door of this machine.

    The certificate of the door is for the name that clients use, so a check by address does not verify it.
    """
    bound = ip_address(door.host)
    host = str(ip_address("::1" if bound.version == 6 else "127.0.0.1") if bound.is_unspecified else bound)  # noqa: PLR2004
    at = f"{f'[{host}]' if ':' in host else host}:{door.port}/healthz"
    if door.tls is None:
        return f"import urllib.request as r; r.urlopen('http://{at}', timeout=4)"
    context = "context=ssl._create_unverified_context()"
    return f"import ssl, urllib.request as r; r.urlopen('https://{at}', timeout=4, {context})"


def _quote_systemd_word(text: str) -> str:
    """Quote one word of a systemd command line."""
    text = text.replace("%", "%%").replace("$", "$$")
    return text if re.fullmatch(r"[\w./%$-]+", text) else json.dumps(text, ensure_ascii=False)
