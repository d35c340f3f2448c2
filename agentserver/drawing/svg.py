"""The drawing of who may talk to whom, as Mermaid, DOT and SVG.

Owns the three forms. Pure and deterministic: the same organism gives the same text. Refuses to know files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lxml import etree

from agentserver.drawing.layered import SWEEPS, layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.drawing.layered import Edge, Layout, Place


@dataclass(frozen=True, slots=True)
class Graph:
    """The listeners of an organism, in its order, and the peers of each.

    Left out, because it holds for every listener: it may answer its caller, call itself and use ``system.*``.

    Args:
        name: of the organism.
        listeners: what is drawn, with their arrows as ``peers``.
        about: what the drawing shows, in words.
        notes: lines that stand with it.
    """

    name: str
    listeners: tuple[Listener, ...]
    about: str = "who may talk to whom"
    notes: tuple[str, ...] = ()

    def arrows(self) -> Iterator[tuple[str, str]]:
        """From whom to whom, in the order of the organism."""
        places = {listener.name: place for place, listener in enumerate(self.listeners)}
        for listener in self.listeners:
            drawn = sorted(listener.peers & places.keys(), key=places.__getitem__)
            yield from ((listener.name, peer) for peer in drawn)

    def grouped(self) -> Graph:
        """The same with one box for all listeners whose names begin with the same part before the dot."""
        groups: dict[str, list[Listener]] = {}
        for listener in self.listeners:
            groups.setdefault(listener.name.partition(".")[0], []).append(listener)
        boxes = tuple(_box_of(name, members) for name, members in groups.items())
        note = (
            f"{len(self.listeners)} listeners as {len(boxes)} boxes, by the part of the name before the dot"
        )
        return replace(self, listeners=boxes, notes=(*self.notes, note))


def _box_of(name: str, members: Sequence[Listener]) -> Listener:
    """One listener in place of several: an agent, or a taker of broadcasts, when each of them is."""
    if len(members) == 1:
        return replace(members[0], name=name, peers=_heads(members[0].peers))
    return replace(
        members[0],
        name=name,
        description=f"{len(members)} listeners",
        agent=all(member.agent for member in members),
        broadcast=all(member.broadcast for member in members),
        peers=frozenset[str]().union(*(_heads(member.peers) for member in members)),
    )


def _heads(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in names)


def mermaid(graph: Graph) -> str:
    """A Mermaid flowchart. Agents are round, listeners of broadcasts are doubled."""
    ids = {listener.name: f"n{i}" for i, listener in enumerate(graph.listeners)}
    lines = ["flowchart LR"]
    for listener in graph.listeners:
        opening, closing = "(", ")"
        if not listener.agent:
            opening, closing = ("[[", "]]") if listener.broadcast else ("[", "]")
        lines.append(f'    {ids[listener.name]}{opening}"{listener.name}"{closing}')
    lines += [f"    {ids[a]} --> {ids[b]}" for a, b in graph.arrows()]
    lines += [f"    %% {note}" for note in graph.notes]
    return "\n".join(lines) + "\n"


def dot(graph: Graph) -> str:
    """A DOT digraph."""
    lines = [f"digraph {_quoted(graph.name)} {{", "    rankdir=LR;", "    node [shape=box];"]
    for listener in graph.listeners:
        look = ["style=rounded"] if listener.agent else []
        look += ["peripheries=2"] if listener.broadcast else []
        tip = f"tooltip={_quoted(listener.description)}"
        lines.append(f"    {_quoted(listener.name)} [{', '.join([*look, tip])}];")
    lines += [f"    {_quoted(a)} -> {_quoted(b)};" for a, b in graph.arrows()]
    lines += [f"    // {note}" for note in graph.notes]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


SVG = "http://www.w3.org/2000/svg"
ROW, GAP, HEIGHT, PADDING, LETTER, BEND = 52.0, 90.0, 32.0, 24.0, 7.6, 12.0
"""In pixels: between rows, between columns, of a box, around all, of a letter, of a column without boxes."""

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

LEGEND = "blue: agent; dashed: takes broadcasts; answers to callers are always allowed and not drawn"


@dataclass(frozen=True, slots=True)
class _Scene:
    """A layout with columns in pixels: the left edge and width of each."""

    layout: Layout
    left: tuple[float, ...]
    widths: tuple[float, ...]

    def y(self, place: Place) -> float:
        return PADDING + HEIGHT / 2 + self.layout.heights[place] * ROW


def svg(graph: Graph) -> str:
    """An SVG drawing that needs nothing else: no script, no font, no picture from elsewhere.

    A graph that takes too many steps to lay out is drawn with a box for each group of listeners.
    """
    places = layout([listener.name for listener in graph.listeners], graph.arrows())
    if places.sweeps < SWEEPS:
        graph = graph.grouped()
        places = layout([listener.name for listener in graph.listeners], graph.arrows())
    scene = _scene(places)
    told = (*graph.notes, LEGEND)
    width = max(scene.left[-1] + scene.widths[-1] + PADDING, max(map(len, told)) * 6.6 + 2 * PADDING)
    below = max(map(scene.y, scene.layout.heights)) + HEIGHT / 2 + PADDING
    height = below + 20 * len(told)
    root = etree.Element(f"{{{SVG}}}svg", nsmap={None: SVG})  # type: ignore[dict-item]
    for key, value in {"width": width, "height": height}.items():
        root.set(key, f"{value:.0f}")
    root.set("viewBox", f"0 0 {width:.0f} {height:.0f}")
    root.set("role", "img")
    _add(root, "title").text = f"{graph.name}: {graph.about}"
    _add(root, "style").text = STYLE
    _markers(root)
    columns = {place: i for i, column in enumerate(scene.layout.columns) for place in column}
    for edge in scene.layout.edges:
        _edge(root, edge, scene, columns)
    for listener in graph.listeners:
        _box(root, listener, scene, columns[listener.name])
    for number, line in enumerate(told, 1):
        note = _add(root, "text", x=f"{PADDING:.0f}", y=f"{below + 20 * number - 10:.0f}")
        note.set("class", "note")
        note.text = line
    return etree.tostring(root, encoding="unicode", pretty_print=True)


def _scene(places: Layout) -> _Scene:
    widths: list[float] = []
    for column in places.columns:
        names = [place for place in column if isinstance(place, str)]
        widths.append(max((len(name) * LETTER + 24 for name in names), default=BEND))
    left = [PADDING]
    for width in widths[:-1]:
        left.append(left[-1] + width + GAP)
    return _Scene(places, tuple(left), tuple(widths))


def _markers(root: etree._Element) -> None:
    """The two ends of an arrow; one marker turned around is not understood everywhere."""
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


def _box(root: etree._Element, listener: Listener, scene: _Scene, column: int) -> None:
    x, y = scene.left[column], scene.y(listener.name)
    group = _add(root, "g")
    _add(group, "title").text = f"{listener.name}: {listener.description}"
    radius = "14" if listener.agent else "3"
    box = _add(group, "rect", x=f"{x:.1f}", y=f"{y - HEIGHT / 2:.1f}", rx=radius)
    box.set("width", f"{scene.widths[column]:.1f}")
    box.set("height", f"{HEIGHT:.1f}")
    looks = ["box", *(["agent"] if listener.agent else []), *(["broadcast"] if listener.broadcast else [])]
    box.set("class", " ".join(looks))
    label = _add(group, "text", x=f"{x + scene.widths[column] / 2:.1f}", y=f"{y + 4.5:.1f}")
    label.set("text-anchor", "middle")
    label.text = listener.name


def _edge(root: etree._Element, edge: Edge, scene: _Scene, columns: Mapping[Place, int]) -> None:
    """A curve from box to box that runs level through the columns between."""
    stops: Sequence[Place] = (edge.left, *edge.bends, edge.right)
    column = columns[edge.left]
    x, y = scene.left[column] + scene.widths[column], scene.y(edge.left)
    way = [f"M{x:.1f},{y:.1f}"]
    for stop in stops[1:]:
        column = columns[stop]
        to_x, to_y = scene.left[column], scene.y(stop)
        middle = (x + to_x) / 2
        way.append(f"C{middle:.1f},{y:.1f} {middle:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
        if stop != edge.right:
            x += scene.widths[column]
            way.append(f"H{x:.1f}")
    path = _add(root, "path", d=" ".join(way))
    path.set("class", "edge")
    if edge.forward:
        path.set("marker-end", "url(#head)")
    if edge.backward:
        path.set("marker-start", "url(#tail)")
    sign = {(True, False): "->", (False, True): "<-"}.get((edge.forward, edge.backward), "<->")
    _add(path, "title").text = f"{edge.left} {sign} {edge.right}"


def _add(parent: etree._Element, tag: str, **attributes: str) -> etree._Element:
    return etree.SubElement(parent, f"{{{SVG}}}{tag}", attributes)
