"""``agentserver schemas`` and ``codegen``: schemas from payload classes, and payload classes from schemas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.process import ExitCode
from agentserver.payload.names import local, namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.config.organism import BoundListener
    from agentserver.payload.codec import Codec, Codecs


@click.command("schemas", short_help="Write the XSD and an example of every payload.")
@project.add_organism_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("schemas"),
    show_default=True,
    help="Directory to write to.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is missing or out of date.")
def schemas_command(organism: Path | None, output: Path, *, check: bool) -> None:
    """Write the XSD and an example of every payload of ORGANISM.

    The first payload of a listener is LISTENER/v1.xsd and LISTENER/v1.example.xml, every further one
    LISTENER/NAME.v1.xsd and LISTENER/NAME.v1.example.xml; the number is the payload's version. A listener's
    hand-written schema is never overwritten. A function's answers are written as well, and the names of the classes
    that are derived from it are listed.
    """
    loaded = project.load(organism)
    codecs = project.build_server(loaded).rules.codecs
    contents = {
        output / name: text for bound in loaded.listeners for name, text in iter_schema_files(bound, codecs)
    }
    for bound in loaded.listeners:
        for line in iter_derived_names(bound, codecs):
            project.say(line)
    own = {bound.schema for bound in loaded.listeners if bound.schema is not None}
    contents = {path: text for path, text in contents.items() if path.resolve() not in own}
    stale = [path for path, text in contents.items() if not _is_current(path, text)]
    for path in stale:
        if check:
            project.say(f"{path}: {'out of date' if path.exists() else 'missing'}")
        else:
            project.write(path, contents[path])
            project.say(f"wrote {path}")
    if check and stale:
        project.say("agentserver schemas writes the missing and outdated files", err=True)
        project.exit_command(ExitCode.FOUND)
    project.say(f"{len(contents) - len(stale)} of {len(contents)} files were current")


def iter_schema_files(bound: BoundListener, codecs: Codecs) -> Iterator[tuple[Path, str]]:
    """Yield the files of one listener: path relative to the directory of schemas, and text."""
    for number, payload in enumerate(_list_classes(bound)):
        codec = codecs.of(payload)
        prefix = "" if number == 0 else f"{local(codec.name)}."
        stem = f"{prefix}{_find_version(codec)}"
        yield Path(bound.listener.name, f"{stem}.xsd"), _with_newline(codec.xsd(documented=True))
        yield Path(bound.listener.name, f"{stem}.example.xml"), _with_newline(codec.example())


def iter_derived_names(bound: BoundListener, codecs: Codecs) -> Iterator[str]:
    """Yield a line for each class that is derived from a function: its names, and where it comes from."""
    from agentserver.payload.functions import find_source_function

    for payload in _list_classes(bound):
        function, name = find_source_function(payload), codecs.of(payload).name
        if function is not None:
            origin = f"{payload.__module__}.{function.__qualname__}"
            yield f"{bound.listener.name}: {local(name)} in {namespace(name)}, derived from {origin}"


def _list_classes(bound: BoundListener) -> tuple[type, ...]:
    """List the payloads of a listener, and of a function also its answers."""
    from agentserver.config.organism import refuse_call
    from agentserver.payload.functions import find_source_function

    listener = bound.listener
    function = bound.handler not in (None, refuse_call) or any(map(find_source_function, listener.payloads))
    return tuple(dict.fromkeys((*listener.payloads, *(listener.answers if function else ()))))


def _find_version(codec: Codec) -> str:
    """Find the version at the end of a payload's namespace; v1 if it has none."""
    found = re.search(r"(?:^|[:/])(v[0-9]+)$", namespace(codec.name))
    return found[1] if found else "v1"


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _is_current(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


@click.command("codegen", short_help="Generate payload classes from a hand-written XSD.")
@click.argument("schema", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@project.output_option
def codegen_command(schema: Path, output: Path | None) -> None:
    """Print a Python module with the payload classes for SCHEMA. Needs the extra codegen."""
    from agentserver.codegen import CodegenError, generate

    with project.refuse_on(CodegenError):
        project.write(output, generate(schema))
