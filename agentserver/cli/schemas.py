"""``agentserver schemas``: the XSD and an example of every payload, as files.

Owns the names of the files and the comparison with what is there. The texts are the codec's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.config.organism import BoundListener
    from agentserver.payload.codec import Codec, Codecs

STALE = 1


@click.command("schemas", short_help="Write the XSD and an example of every payload.")
@project.organism_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("schemas"),
    show_default=True,
    help="The directory to write to.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail when a file is missing or not current.")
@click.pass_context
def command(ctx: click.Context, organism: Path | None, output: Path, *, check: bool) -> None:
    """Write the XSD and an example of every payload of ORGANISM.

    The first payload of a listener is LISTENER/v1.xsd and LISTENER/v1.example.xml, every further one
    LISTENER/NAME.v1.xsd and LISTENER/NAME.v1.example.xml; the number is the payload's version. A listener's
    hand-written schema is never written over.
    """
    loaded = project.load(ctx, organism)
    codecs = project.server(ctx, loaded).rules.codecs
    wanted = {output / name: text for bound in loaded.listeners for name, text in files(bound, codecs)}
    own = {bound.schema for bound in loaded.listeners if bound.schema is not None}
    wanted = {path: text for path, text in wanted.items() if path.resolve() not in own}
    stale = [path for path, text in wanted.items() if not _holds(path, text)]
    for path in stale:
        if check:
            project.say(f"{path}: {'not current' if path.exists() else 'missing'}")
        else:
            project.write(path, wanted[path])
            project.say(f"wrote {path}")
    if check and stale:
        project.say("agentserver schemas writes what is missing or not current", err=True)
        ctx.exit(STALE)
    project.say(f"{len(wanted) - len(stale)} of {len(wanted)} files were current")


def files(bound: BoundListener, codecs: Codecs) -> Iterator[tuple[Path, str]]:
    """The files of one listener, relative to the directory of schemas."""
    from agentserver.payload.names import local

    for number, payload in enumerate(bound.listener.payloads):
        codec = codecs.of(payload)
        prefix = "" if number == 0 else f"{local(codec.name)}."
        stem = f"{prefix}{_version(codec)}"
        yield Path(bound.listener.name, f"{stem}.xsd"), _ended(codec.xsd(documented=True))
        yield Path(bound.listener.name, f"{stem}.example.xml"), _ended(codec.example())


def _version(codec: Codec) -> str:
    """The version that a payload's namespace ends in; v1 when a hand-written one does not say."""
    from agentserver.payload.names import namespace

    found = re.search(r"(?:^|[:/])(v[0-9]+)$", namespace(codec.name))
    return found[1] if found else "v1"


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False
