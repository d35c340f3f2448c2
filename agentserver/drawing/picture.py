"""The picture of who may talk to whom: boxes and lines in pixels, of which an SVG or a page is made.

Owns the graph of an organism, its boxes for groups, and where everything stands. Pure and deterministic: the same
organism gives the same picture. Refuses to know colours, tags and files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentserver.drawing.layered import SWEEPS, layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.drawing.layered import Edge, Layout, Place

ROW, GAP, HEIGHT, PADDING, LETTER, BEND = 52.0, 90.0, 32.0, 24.0, 7.6, 12.0
"""In pixels: between rows, between columns, of a box, around all, of a letter, of a column without boxes."""


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


@dataclass(frozen=True, slots=True)
class Box:
    """A listener, or a group of them, by its upper left corner; its height is HEIGHT.

    Args:
        members: the listeners it stands for.
    """

    listener: Listener
    x: float
    y: float
    width: float
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A way between two boxes.

    Args:
        left: the box at which it begins.
        right: the box at which it ends, in a later column.
        forward: whether it leads from left to right.
        backward: whether it leads from right to left; both may hold.
        way: as the ``d`` of an SVG path, from left to right.
    """

    left: str
    right: str
    forward: bool
    backward: bool
    way: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn of a graph.

    Args:
        graph: what is drawn, which has groups in place of listeners where a layout of all takes too many steps.
        width: of everything.
        height: of everything.
        boxes: in the order of the graph.
        lines: in the order of the graph.
    """

    graph: Graph
    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def picture(graph: Graph) -> Picture:
    """Place a graph. One that takes too many steps to lay out has a box for each group of listeners."""
    members: dict[str, list[str]] = {}
    places = layout([listener.name for listener in graph.listeners], graph.arrows())
    grouped = places.sweeps < SWEEPS
    for listener in graph.listeners:
        name = listener.name.partition(".")[0] if grouped else listener.name
        members.setdefault(name, []).append(listener.name)
    if grouped:
        graph = graph.grouped()
        places = layout([listener.name for listener in graph.listeners], graph.arrows())
    scene = _scene(places)
    columns = {place: i for i, column in enumerate(places.columns) for place in column}
    boxes = tuple(
        Box(
            listener,
            scene.left[columns[listener.name]],
            scene.y(listener.name) - HEIGHT / 2,
            scene.widths[columns[listener.name]],
            tuple(members[listener.name]),
        )
        for listener in graph.listeners
    )
    lines = tuple(
        Line(edge.left, edge.right, edge.forward, edge.backward, _way(edge, scene, columns))
        for edge in places.edges
    )
    width = scene.left[-1] + scene.widths[-1] + PADDING if scene.widths else 2 * PADDING
    height = max(map(scene.y, places.heights), default=0.0) + HEIGHT / 2 + PADDING
    return Picture(graph, width, height, boxes, lines)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A layout with columns in pixels: the left edge and width of each."""

    layout: Layout
    left: tuple[float, ...]
    widths: tuple[float, ...]

    def y(self, place: Place) -> float:
        return PADDING + HEIGHT / 2 + self.layout.heights[place] * ROW


def _scene(places: Layout) -> _Scene:
    widths: list[float] = []
    for column in places.columns:
        names = [place for place in column if isinstance(place, str)]
        widths.append(max((len(name) * LETTER + 24 for name in names), default=BEND))
    left = [PADDING]
    for width in widths[:-1]:
        left.append(left[-1] + width + GAP)
    return _Scene(places, tuple(left), tuple(widths))


def _way(edge: Edge, scene: _Scene, columns: Mapping[Place, int]) -> str:
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
    return " ".join(way)
