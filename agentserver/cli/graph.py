"""``agentserver graph``: who may talk to whom.

Owns the options, and what is drawn of the ways from source to sink; drawing/svg.py draws.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from agentserver.config import Organism
    from agentserver.drawing.picture import Graph
    from agentserver.payload.codec import Codecs


class DrawingFormat(StrEnum):
    """The language of a drawing."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


@click.command("graph", short_help="Draw who may talk to whom.")
@project.organism_argument
@click.option(
    "--format",
    "form",
    type=click.Choice([*map(str, DrawingFormat)]),
    default=str(DrawingFormat.MERMAID),
    show_default=True,
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
    from agentserver.drawing import svg
    from agentserver.drawing.picture import Graph

    loaded = project.load(ctx, organism)
    graph = Graph(loaded.name, tuple(bound.listener for bound in loaded.listeners))
    if flows:
        graph = _flows(loaded, project.server(ctx, loaded).rules.codecs)
    if loaded.guards:
        graph = replace(
            graph, notes=(*graph.notes, f"what the guards {', '.join(loaded.guards)} deny is not drawn")
        )
    draw = {
        DrawingFormat.MERMAID: svg.to_mermaid,
        DrawingFormat.DOT: svg.to_dot,
        DrawingFormat.SVG: svg.to_svg,
    }[DrawingFormat(form)]
    project.write(output, draw(graph))


def _flows(organism: Organism, codecs: Codecs) -> Graph:
    """The ways from sources to sinks as a graph, with what stands between as notes."""
    from agentserver.cli.check import flow_report
    from agentserver.drawing.picture import Graph
    from agentserver.provenance.flows import kinds

    about = "whose words can come to drive what has consequences"
    if organism.provenance is None:
        return _empty(
            organism.name, about, "no provenance is declared, so nobody asks where a value comes from"
        )
    report = flow_report(organism, organism.provenance, codecs)
    classes = dict(report.classes)
    steps = {pair for flow in report.flows for pair in zip(flow.path, flow.path[1:], strict=False)}
    part = {name: f"{name} ({kinds(classes[name])})" for pair in steps for name in pair}
    drawn = tuple(
        replace(
            bound.listener,
            name=part[bound.listener.name],
            peers=frozenset(part[to] for sender, to in steps if sender == bound.listener.name),
        )
        for bound in organism.listeners
        if bound.listener.name in part
    )
    if not drawn:
        return _empty(organism.name, about, "no way leads from a source to a sink")
    return Graph(organism.name, drawn, about, tuple(map(str, report.flows)))


def _empty(name: str, about: str, why: str) -> Graph:
    from agentserver.core.blueprint import Listener
    from agentserver.drawing.picture import Graph

    return Graph(name, (Listener("none", (), why),), about, (why,))
