"""``agentserver codegen``: payload dataclasses from a hand-written XSD.

Owns nothing but the options; agentserver/codegen.py does the work.
"""

from __future__ import annotations

from pathlib import Path

import click

from agentserver.cli import project


@click.command("codegen", short_help="Make payload classes from a hand-written XSD.")
@click.argument("schema", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
def command(schema: Path, output: Path | None) -> None:
    """Print the Python module of payload classes for SCHEMA. Needs the extra codegen."""
    from agentserver.codegen import CodegenError, generate

    try:
        source = generate(schema)
    except CodegenError as error:
        raise click.ClickException(str(error)) from None
    project.write(output, source)
