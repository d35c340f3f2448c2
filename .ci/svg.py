"""Draws Mermaid flowcharts and state diagrams of pages as SVG: the site loads no script from elsewhere.

Uses the layout of the live view.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lxml import etree

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

from agentserver.core.blueprint import Listener  # noqa: E402 - from the checkout
from agentserver.gateways.live.layout import HEIGHT, PADDING, draw_picture  # noqa: E402
from agentserver.graph import Graph  # noqa: E402

if TYPE_CHECKING:
    from agentserver.gateways.live.layout import Box, Line

NODE: Final = re.compile(r'^ *(\w+)(\(|\[\[|\[)"([^"]*)"[\])]+$', re.MULTILINE)
ARROW: Final = re.compile(r"^ *(\w+) --> (\w+)$", re.MULTILINE)


def read_flowchart(text: str) -> Graph:
    """Read a flowchart as ``agentserver graph`` writes it."""
    nodes = {one: (label, shape) for one, shape, label in NODE.findall(text)}
    arrows = [(nodes[a][0], nodes[b][0]) for a, b in ARROW.findall(text)]
    return Graph("flowchart", tuple(
        Listener(label, (), "", agent=shape == "(", broadcast=shape == "[[",
                 peers=frozenset(b for a, b in arrows if a == label))
        for label, shape in nodes.values()
    ), "which may follow which")  # fmt: skip


SVG = "http://www.w3.org/2000/svg"

STYLE = """
svg { font: 13px ui-monospace, monospace; background: #fff; }
.box { fill: #f3f4f6; stroke: #4b5563; } .agent { fill: #dbeafe; stroke: #1d4ed8; }
.broadcast { stroke-dasharray: 5 3; } text { fill: #111827; } .note { fill: #6b7280; font-size: 11px; }
.edge { fill: none; stroke: #6b7280; stroke-width: 1.3; } .edge:hover { stroke: #dc2626; stroke-width: 2.5; }
.head { fill: #6b7280; }
@media (prefers-color-scheme: dark) {
  svg { background: #111827; } .box { fill: #1f2937; stroke: #9ca3af; } text { fill: #f3f4f6; }
  .agent { fill: #1e3a8a; stroke: #93c5fd; }
}
"""


def to_svg(graph: Graph) -> str:
    """Write a self-contained SVG: no script, font or external image."""
    drawn = draw_picture(graph)
    notes = drawn.graph.notes
    width = max(drawn.width, max(map(len, notes), default=0) * 6.6 + 2 * PADDING)
    height = drawn.height + 20 * len(notes)
    root = etree.Element(f"{{{SVG}}}svg", nsmap={None: SVG})  # type: ignore[dict-item]
    for key, value in {"width": width, "height": height}.items():
        root.set(key, f"{value:.0f}")
    root.set("viewBox", f"0 0 {width:.0f} {height:.0f}")
    root.set("role", "img")
    _add(root, "title").text = f"{graph.name}: {graph.about}"
    _add(root, "style").text = STYLE
    _markers(root)
    for line in drawn.lines:
        _line(root, line)
    for box in drawn.boxes:
        _box(root, box)
    for number, text in enumerate(notes, 1):
        note = _add(root, "text", x=f"{PADDING:.0f}", y=f"{drawn.height + 20 * number - 10:.0f}")
        note.set("class", "note")
        note.text = text
    return etree.tostring(root, encoding="unicode", pretty_print=True)


def _markers(root: etree._Element) -> None:
    """Add both arrowheads, because not every viewer can reverse a single marker."""
    for name, tip, outline in (
        ("head", "7.5", "M0,0.8 L8,4 L0,7.2 z"),
        ("tail", "0.5", "M8,0.8 L0,4 L8,7.2 z"),
    ):
        marker = _add(
            _add(root, "defs"), "marker", id=name, viewBox="0 0 8 8", refX=tip, refY="4", orient="auto"
        )
        marker.set("markerWidth", "8")
        marker.set("markerHeight", "8")
        _add(marker, "path", d=outline).set("class", "head")


def _box(root: etree._Element, box: Box) -> None:
    listener, y = box.listener, box.y + HEIGHT / 2
    group = _add(root, "g")
    _add(group, "title").text = f"{listener.name}: {listener.description}"
    radius = "14" if listener.agent else "3"
    outline = _add(group, "rect", x=f"{box.x:.1f}", y=f"{box.y:.1f}", rx=radius)
    outline.set("width", f"{box.width:.1f}")
    outline.set("height", f"{HEIGHT:.1f}")
    looks = ["box", *(["agent"] if listener.agent else []), *(["broadcast"] if listener.broadcast else [])]
    outline.set("class", " ".join(looks))
    label = _add(group, "text", x=f"{box.x + box.width / 2:.1f}", y=f"{y + 4.5:.1f}")
    label.set("text-anchor", "middle")
    label.text = listener.name


def _line(root: etree._Element, line: Line) -> None:
    path = _add(root, "path", d=line.way)
    path.set("class", "edge")
    if line.forward:
        path.set("marker-end", "url(#head)")
    if line.backward:
        path.set("marker-start", "url(#tail)")
    sign = {(True, False): "->", (False, True): "<-"}.get((line.forward, line.backward), "<->")
    _add(path, "title").text = f"{line.left} {sign} {line.right}"


def _add(parent: etree._Element, tag: str, **attributes: str) -> etree._Element:
    return etree.SubElement(parent, f"{{{SVG}}}{tag}", attributes)
