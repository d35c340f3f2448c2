"""Places the peer graph of an organism as boxes and lines in pixels, for SVG files and the live view.

Pure and deterministic: equal organisms give equal pictures. Colours and markup are up to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentserver.drawing.layered import SWEEPS, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.drawing.layered import Edge, Layout, Place

ROW, GAP, HEIGHT, PADDING, LETTER, BEND = 52.0, 90.0, 32.0, 24.0, 7.6, 12.0
"""Pixels: between rows, between columns, of a box, around everything, of a letter, of a column without boxes."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The listeners of an organism, in its order, and their peers.

    Arrows that every listener has are left out: to its caller, to itself and to ``system.*``.

    Args:
        name: of the organism.
        listeners: the boxes to draw, with their arrows as ``peers``.
        about: a caption.
        notes: lines below the drawing.
    """

    name: str
    listeners: tuple[Listener, ...]
    about: str = "the peers of each listener"
    notes: tuple[str, ...] = ()

    def arrows(self) -> Iterator[tuple[str, str]]:
        """Yield each arrow as sender and receiver, in the order of the organism."""
        places = {listener.name: place for place, listener in enumerate(self.listeners)}
        for listener in self.listeners:
            drawn = sorted(listener.peers & places.keys(), key=places.__getitem__)
            yield from ((listener.name, peer) for peer in drawn)

    def group_listeners(self) -> Graph:
        """Merge listeners whose names share the part before the dot into one box each."""
        groups: dict[str, list[Listener]] = {}
        for listener in self.listeners:
            groups.setdefault(listener.name.partition(".")[0], []).append(listener)
        boxes = tuple(_box_of(name, members) for name, members in groups.items())
        note = (
            f"{len(self.listeners)} listeners as {len(boxes)} boxes, by the part of the name before the dot"
        )
        return replace(self, listeners=boxes, notes=(*self.notes, note))


def _box_of(name: str, members: Sequence[Listener]) -> Listener:
    """Merge listeners into one that is an agent, or takes broadcasts, if all of them do."""
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
    """A listener or group of listeners, placed by its upper left corner; its height is HEIGHT.

    Args:
        members: the listeners in the box.
    """

    listener: Listener
    x: float
    y: float
    width: float
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """Line between two boxes.

    Args:
        left: the box where it begins.
        right: the box where it ends, in a later column.
        forward: whether there is an arrow from left to right.
        backward: whether there is an arrow from right to left; both may hold.
        way: the ``d`` of an SVG path, from left to right.
    """

    left: str
    right: str
    forward: bool
    backward: bool
    way: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph with the places of its boxes and lines.

    Args:
        graph: the drawn graph; with groups in place of listeners if the original has too many steps to lay out.
        width: of the whole picture.
        height: of the whole picture.
        boxes: in the order of the graph.
        lines: in the order of the graph.
    """

    graph: Graph
    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def draw_picture(graph: Graph) -> Picture:
    """Place a graph. One that takes too many steps to lay out gets a box for each group of listeners."""
    members: dict[str, list[str]] = {}
    places = lay_out([listener.name for listener in graph.listeners], graph.arrows())
    group_listeners = places.sweeps < SWEEPS
    for listener in graph.listeners:
        name = listener.name.partition(".")[0] if group_listeners else listener.name
        members.setdefault(name, []).append(listener.name)
    if group_listeners:
        graph = graph.group_listeners()
        places = lay_out([listener.name for listener in graph.listeners], graph.arrows())
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
    """A layout with the left edge and width of each column in pixels."""

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
    """Draw a curve between two boxes that runs level through the columns in between."""
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
