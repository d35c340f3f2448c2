"""``agentserver graph``: who may talk to whom.

Owns nothing but the options; drawing.py draws.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import click

from agentserver.cli import project


class Form(StrEnum):
    """The language of a drawing."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


@click.command("graph", short_help="Draw who may talk to whom.")
@project.organism_argument
@click.option(
    "--format", "form", type=click.Choice([*map(str, Form)]), default=str(Form.MERMAID), show_default=True
)
@click.option("--flows", is_flag=True, help="Draw whose words can come to drive what has consequences.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.pass_context
def command(
    ctx: click.Context, organism: Path | None, form: str, output: Path | None, *, flows: bool
) -> None:
    """Draw who may talk to whom in ORGANISM (config/organism.yaml, then organism.yaml).

    The same organism gives the same drawing. SVG needs no other program. With --flows, an arrow is a way that words
    can take from a source to a sink, and the notes say what stands between.
    """
    from agentserver.cli import drawing

    loaded = project.load(ctx, organism)
    graph = drawing.Graph(loaded.name, tuple(bound.listener for bound in loaded.listeners))
    if flows:
        from agentserver.cli import flowing

        graph = flowing.graph(loaded, project.server(ctx, loaded).rules.codecs)
    if loaded.guards:
        graph = replace(
            graph, notes=(*graph.notes, f"what the guards {', '.join(loaded.guards)} deny is not drawn")
        )
    draw = {Form.MERMAID: drawing.mermaid, Form.DOT: drawing.dot, Form.SVG: drawing.svg}[Form(form)]
    project.write(output, draw(graph))
