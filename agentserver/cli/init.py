"""``agentserver init``: a project that runs at once, without a key and without a network.

Owns where its files go; their texts are in scaffold/ beside this module, and each name ends in ``.txt`` there so
that no tool takes them for part of this package.
"""

from __future__ import annotations

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


@click.command("init", short_help="Make a project that runs at once.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--force", is_flag=True, help="Write into a directory that is not empty, over files of the same name."
)
def command(directory: Path, *, force: bool) -> None:
    """Make a project in DIRECTORY: an organism, its listeners, a test."""
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise click.UsageError(f"{directory} is not empty; --force writes all the same")
    for name, text in (*scaffold(), (SCHEMA, editor_schema())):
        project.write(directory / name, text)
        project.say(f"wrote {directory / name}")
    click.echo()
    project.say(f"Now:  cd {directory} && agentserver run")


def editor_schema() -> str:
    """The schema of an organism's file, as it is packed; in a checkout it lies beside the package."""
    package = files("agentserver")
    packed = package / "schemas" / SCHEMA.name
    beside = Path(str(package)).resolve().parent / "schemas" / SCHEMA.name
    return (packed if packed.is_file() else beside).read_text(encoding="utf-8")


def scaffold() -> Iterator[tuple[Path, str]]:
    """The project's files: path and text."""
    return _walk(files("agentserver.cli") / "scaffold", Path())


def _walk(folder: Traversable, below: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, below / entry.name)
        else:
            yield below / entry.name.removesuffix(SUFFIX), entry.read_text(encoding="utf-8")
