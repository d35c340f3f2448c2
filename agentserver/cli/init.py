"""``agentserver init``: a project that runs at once, without a key and without a network.

Owns the templates and where their files go. The texts are in scaffold/ beside this module: those of every project in
common/, those of a template in a folder of its name. Each name ends in ``.txt`` there so that no tool takes them for
part of this package, and ``@name@`` stands for the project's name in each.
"""

from __future__ import annotations

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

SUFFIX = ".txt"
SCHEMA = Path("config/organism.schema.json")
COMMON = "common"
OURS = frozenset({"agentserver", "agentserver-xml"})
"""The names by which a project would stand for the server's own distribution, or a stranger's."""
UNNAMED = "first-organism"
"""The name of a project in a directory whose name gives none."""


class ProjectTemplate(StrEnum):
    """The projects that there are."""

    TOOLS = "tools"
    AGENT = "agent"
    SECURE_DESK = "secure-desk"
    HANDOFF = "handoff"


_EXTRA = {ProjectTemplate.SECURE_DESK: "[provenance]"}
"""The extra that an organism needs of agentserver, where it needs one."""


@click.command("init", short_help="Make a project that runs at once.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--template",
    type=click.Choice([*map(str, ProjectTemplate)]),
    default=str(ProjectTemplate.TOOLS),
    show_default=True,
    help="Two typed tools; an agent with tools; a desk that is attacked; work handed over in a closed vocabulary.",
)
@click.option("--name", help="Of the project; the directory's when left out.")
@click.option(
    "--force", is_flag=True, help="Write over files of the same name, and into a directory that is not empty."
)
@click.option(
    "--deploy",
    is_flag=True,
    help="Write a systemd unit, a Containerfile and a lock with hashes for the project.",
)
@click.option(
    "--extra",
    "extras",
    multiple=True,
    help="With --deploy: an extra that the project's code needs. May be repeated.",
)
def command(
    directory: Path, template: str, name: str | None, *, force: bool, deploy: bool, extras: tuple[str, ...]
) -> None:
    """Make a project in DIRECTORY: an organism, its listeners, tests, a pyproject.toml, a file for CI.

    It runs at once, without a key and without a network, and its tests pass. It asks no package index for agentserver:
    its pyproject.toml says how that is installed.

    With --deploy it writes the files in deploy/ as well. A project that is already in DIRECTORY is not changed
    otherwise: its lock is written again, and its unit and Containerfile only with --force. The lock holds what the
    organism needs to be served, in the versions with which agentserver was tested, and names no package index.
    """
    if extras and not deploy:
        raise click.UsageError("--extra is for the lock that --deploy writes")
    there = next((directory / each for each in project.DEFAULTS if project.is_file(directory / each)), None)
    if not (deploy and there):
        _make(directory, ProjectTemplate(template), name, force=force)
    if deploy:
        _deploy(there or directory / project.DEFAULTS[0], extras, force=force)
    click.echo()
    project.say(f"Now:  cd {directory} && agentserver {'serve' if deploy else 'run'}")


def _make(directory: Path, template: ProjectTemplate, name: str | None, *, force: bool) -> None:
    """Write the files of a new project."""
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise click.UsageError(f"{directory} is not empty; --force writes all the same")
    given = named(directory.resolve().name if name is None else name)
    if name is not None and not given:
        raise click.UsageError(f"{name!r} gives no name for a project: say another with --name")
    for path, text in (*scaffold(template, given or UNNAMED), (SCHEMA, editor_schema())):
        project.write(directory / path, text)
        project.say(f"wrote {directory / path}")


def _deploy(path: Path, extras: tuple[str, ...], *, force: bool) -> None:
    """Write the files by which the organism in a file becomes a service."""
    from agentserver.cli import deploying
    from agentserver.config import forget

    ctx = click.get_current_context()
    organism = project.load(ctx, path)
    forget(organism)  # its YAML counts here, and none of its code runs
    if organism.door is None:
        project.refuse(ctx, f"{path}: has no http:, by which a service is reached; add a line 'http: {{}}'")
    try:
        lock = deploying.lock(organism, extras)
        texts = [*deploying.texts(organism)]
    except ValueError as error:
        project.refuse(ctx, str(error))
    folder = path.parent.parent if path.parent.name == "config" else path.parent
    for relative, text in texts:
        kept = not force and (folder / relative).exists()
        if not kept:
            project.write(folder / relative, text)
        project.say(f"{'kept' if kept else 'wrote'} {folder / relative}")
    project.write(folder / deploying.LOCK, lock.text)
    project.say(f"wrote {folder / deploying.LOCK}")
    if lock.missing:
        told = f"{folder / deploying.LOCK}: has no pin for {', '.join(lock.missing)} of pyproject.toml"
        project.refuse(ctx, f"{told}; add one with its hashes (uv pip compile --generate-hashes writes them)")


def named(text: str) -> str:
    """The name of a project: letters, digits and hyphens of a text. Empty for none, and for ours."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-")
    return "" if name in OURS else name


def editor_schema() -> str:
    """The schema of an organism's file, as it is packed; in a checkout it lies beside the package."""
    package = files("agentserver")
    packed = package / "schemas" / SCHEMA.name
    beside = Path(str(package)).resolve().parent / "schemas" / SCHEMA.name
    return (packed if packed.is_file() else beside).read_text(encoding="utf-8")


def scaffold(template: ProjectTemplate, name: str) -> Iterator[tuple[Path, str]]:
    """The files of a project: path and text."""
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
