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
    "--force", is_flag=True, help="Write into a directory that is not empty, over files of the same name."
)
def command(directory: Path, template: str, name: str | None, *, force: bool) -> None:
    """Make a project in DIRECTORY: an organism, its listeners, tests, a pyproject.toml, a file for CI.

    It runs at once, without a key and without a network, and its tests pass. It asks no package index for agentserver:
    its pyproject.toml says how that is installed.
    """
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise click.UsageError(f"{directory} is not empty; --force writes all the same")
    given = named(directory.resolve().name if name is None else name)
    if name is not None and not given:
        raise click.UsageError(f"{name!r} gives no name for a project: say another with --name")
    texts = scaffold(ProjectTemplate(template), given or UNNAMED)
    for path, text in (*texts, (SCHEMA, editor_schema())):
        project.write(directory / path, text)
        project.say(f"wrote {directory / path}")
    click.echo()
    project.say(f"Now:  cd {directory} && agentserver run")


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
