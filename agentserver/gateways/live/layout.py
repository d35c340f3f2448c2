"""Places the peer graph of an organism as boxes and lines in pixels, for the live view.

Uses the layered method (Sugiyama, Tagawa, Toda 1981): break cycles, rank by longest path, order each column by the
mean of its neighbours, then assign heights. Pure and deterministic: equal organisms give equal pictures.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.graph import Graph

ROW, GAP, HEIGHT, PADDING, LETTER, BEND = 52.0, 90.0, 32.0, 24.0, 7.6, 12.0
"""Pixels: between rows, between columns, of a box, around everything, of a letter, of a column without boxes."""

SWEEPS = 12
"""Passes that reorder the columns, within STEPS."""

STEPS = 250_000
"""Places and links visited to order the columns, and again to assign heights."""

Bend: TypeAlias = tuple[str, str, int]
"""Point where an edge crosses an intermediate column: the edge's two nodes and the rank."""

Place: TypeAlias = "str | Bend"


@dataclass(frozen=True, slots=True)
class Edge:
    """Line from ``left`` to ``right``, which is in a later column.

    Args:
        forward: whether there is an arrow from left to right.
        backward: whether there is an arrow from right to left; both may hold.
        bends: intermediate points from left to right; empty if routing all edges would take too many steps.
    """

    left: str
    right: str
    forward: bool
    backward: bool
    bends: tuple[Bend, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns from left to right, the height of each place in rows, and the edges.

    Args:
        sweeps: passes that reordered the columns; fewer than SWEEPS for a large graph.
    """

    columns: tuple[tuple[Place, ...], ...]
    heights: Mapping[Place, float]
    edges: tuple[Edge, ...]
    sweeps: int


def lay_out(nodes: Sequence[str], arrows: Iterable[tuple[str, str]]) -> Layout:
    """Lay out nodes given in order. Arrows from a node to itself are dropped."""
    pairs = {(a, b) for a, b in arrows if a != b}
    order, directed = _acyclic(nodes, pairs)
    ranks = _compute_ranks(order, directed)
    between = sum(ranks[b] - ranks[a] - 1 for a, b in directed)
    effort = len(nodes) + len(directed) + 2 * between
    bent = effort <= STEPS // 2
    edges = tuple(
        Edge(
            a,
            b,
            (a, b) in pairs,
            (b, a) in pairs,
            tuple((a, b, r) for r in range(ranks[a] + 1, ranks[b])) if bent else (),
        )
        for a, b in directed
    )
    sweeps = max(1, min(SWEEPS, STEPS // max(effort, 1)))
    columns: list[list[Place]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in nodes:
        columns[ranks[node]].append(node)
    for edge in edges:
        for bend in edge.bends:
            columns[bend[2]].append(bend)
    links = [link for edge in edges for link in pairwise(_collect_stops(edge))]
    ordered = _order_columns(columns, links, sweeps)
    return Layout(tuple(map(tuple, ordered)), _assign_heights(ordered, links, sweeps), edges, sweeps)


def _acyclic(
    nodes: Sequence[str], arrows: set[tuple[str, str]]
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Orient each connected pair so that there is no cycle, along a depth-first walk from the sources.

    Returns the nodes in topological order, and the pairs.
    """
    place = {node: i for i, node in enumerate(nodes)}
    outgoing: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in sorted(arrows, key=lambda arrow: (place[arrow[0]], place[arrow[1]])):
        outgoing[a].append(b)
    reached = {b for _, b in arrows}
    finished: dict[str, int] = {}
    seen: set[str] = set()
    for start in sorted(nodes, key=lambda node: (node in reached, place[node])):
        if start not in seen:
            _finish(start, outgoing, finished, seen)
    pairs = {(a, b) if finished[a] > finished[b] else (b, a) for a, b in arrows}
    ordered = sorted(pairs, key=lambda pair: (place[pair[0]], place[pair[1]]))
    return tuple(reversed(finished)), ordered


def _finish(start: str, outgoing: Mapping[str, list[str]], finished: dict[str, int], seen: set[str]) -> None:
    """Append nodes in depth-first postorder."""
    seen.add(start)
    walk = [(start, iter(outgoing[start]))]
    while walk:
        node, following = walk[-1]
        fresh = next((each for each in following if each not in seen), None)
        if fresh is None:
            finished[node] = len(finished)
            walk.pop()
        else:
            seen.add(fresh)
            walk.append((fresh, iter(outgoing[fresh])))


def _compute_ranks(order: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Compute the longest path to each node. ``order`` is topological."""
    outgoing: dict[str, list[str]] = defaultdict(list)
    for a, b in pairs:
        outgoing[a].append(b)
    ranks: dict[str, int] = {}
    for node in order:
        rank = ranks.setdefault(node, 0)
        for after in outgoing.get(node, ()):
            ranks[after] = max(ranks.get(after, 0), rank + 1)
    return ranks


def _order_columns(
    columns: list[list[Place]], links: Sequence[tuple[Place, Place]], sweeps: int
) -> list[list[Place]]:
    """Find the order with the fewest crossings among the sweeps."""
    before, after = _neighbours(links)
    best, fewest = [list(column) for column in columns], _count_crossings(columns, links)
    current = [list(column) for column in columns]
    for sweep in range(sweeps):
        forward = sweep % 2 == 0
        indexes = range(1, len(current)) if forward else range(len(current) - 2, -1, -1)
        for i in indexes:
            fixed = current[i - 1 if forward else i + 1]
            current[i] = _by_mean(current[i], fixed, before if forward else after)
        crossings = _count_crossings(current, links)
        if crossings < fewest:
            best, fewest = [list(column) for column in current], crossings
    return best


def _neighbours(
    links: Sequence[tuple[Place, Place]],
) -> tuple[dict[Place, list[Place]], dict[Place, list[Place]]]:
    before: dict[Place, list[Place]] = defaultdict(list)
    after: dict[Place, list[Place]] = defaultdict(list)
    for a, b in links:
        before[b].append(a)
        after[a].append(b)
    return before, after


def _by_mean(
    column: list[Place], fixed: Sequence[Place], neighbours: Mapping[Place, list[Place]]
) -> list[Place]:
    positions = {place: i for i, place in enumerate(fixed)}

    def mean(entry: tuple[int, Place]) -> float:
        near = [positions[place] for place in neighbours.get(entry[1], ()) if place in positions]
        return sum(near) / len(near) if near else float(entry[0])

    return [place for _, place in sorted(enumerate(column), key=mean)]


def _count_crossings(columns: Sequence[Sequence[Place]], links: Sequence[tuple[Place, Place]]) -> int:
    """Count the crossings of links between the same two columns."""
    positions = {place: (rank, i) for rank, column in enumerate(columns) for i, place in enumerate(column)}
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for a, b in links:
        spans[positions[a][0]].append((positions[a][1], positions[b][1]))
    return sum(map(_count_inversions, spans.values()))


def _count_inversions(span: list[tuple[int, int]]) -> int:
    """Count pairs of links that cross: one starts above the other and ends below it."""
    above: list[int] = []
    count = 0
    for _, right in sorted(span):
        count += len(above) - bisect_right(above, right)
        insort(above, right)
    return count


def _assign_heights(
    columns: Sequence[Sequence[Place]], links: Sequence[tuple[Place, Place]], sweeps: int
) -> dict[Place, float]:
    """Assign heights near the mean of the neighbours, one row apart and in column order. The minimum is 0."""
    before, after = _neighbours(links)
    heights: dict[Place, float] = {place: float(i) for column in columns for i, place in enumerate(column)}
    for sweep in range(sweeps):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            _settle(column, before if forward else after, heights)
    lowest = min(heights.values(), default=0.0)
    return {place: height - lowest for place, height in heights.items()}


def _settle(
    column: Sequence[Place], neighbours: Mapping[Place, list[Place]], heights: dict[Place, float]
) -> None:
    desired = []
    for place in column:
        near = [heights[each] for each in neighbours.get(place, ())]
        desired.append(sum(near) / len(near) if near else heights[place])
    placed: list[float] = []
    for height in desired:
        placed.append(height if not placed else max(height, placed[-1] + 1))
    shift = sum(a - b for a, b in zip(desired, placed, strict=True)) / max(len(placed), 1)
    for place, height in zip(column, placed, strict=True):
        heights[place] = height + shift


def _collect_stops(edge: Edge) -> tuple[Place, ...]:
    return (edge.left, *edge.bends, edge.right)


def group_listeners(graph: Graph) -> Graph:
    """Merge listeners whose names share the part before the dot into one box each."""
    groups: dict[str, list[Listener]] = {}
    for listener in graph.listeners:
        groups.setdefault(listener.name.partition(".")[0], []).append(listener)
    boxes = tuple(_merge_listeners(name, members) for name, members in groups.items())
    note = f"{len(graph.listeners)} listeners as {len(boxes)} boxes, by the part of the name before the dot"
    return replace(graph, listeners=boxes, notes=(*graph.notes, note))


def _merge_listeners(name: str, members: Sequence[Listener]) -> Listener:
    """Merge listeners into one that is an agent, or takes broadcasts, if all of them do."""
    if len(members) == 1:
        return replace(members[0], name=name, peers=_collect_heads(members[0].peers))
    return replace(
        members[0],
        name=name,
        description=f"{len(members)} listeners",
        agent=all(member.agent for member in members),
        broadcast=all(member.broadcast for member in members),
        peers=frozenset[str]().union(*(_collect_heads(member.peers) for member in members)),
    )


def _collect_heads(names: Iterable[str]) -> frozenset[str]:
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
    places = lay_out([listener.name for listener in graph.listeners], graph.iter_arrows())
    grouped = places.sweeps < SWEEPS
    for listener in graph.listeners:
        name = listener.name.partition(".")[0] if grouped else listener.name
        members.setdefault(name, []).append(listener.name)
    if grouped:
        graph = group_listeners(graph)
        places = lay_out([listener.name for listener in graph.listeners], graph.iter_arrows())
    scene = _make_scene(places)
    columns = {place: i for i, column in enumerate(places.columns) for place in column}
    boxes = tuple(
        Box(
            listener,
            scene.left[columns[listener.name]],
            scene.compute_y(listener.name) - HEIGHT / 2,
            scene.widths[columns[listener.name]],
            tuple(members[listener.name]),
        )
        for listener in graph.listeners
    )
    lines = tuple(
        Line(edge.left, edge.right, edge.forward, edge.backward, _draw_curve(edge, scene, columns))
        for edge in places.edges
    )
    width = scene.left[-1] + scene.widths[-1] + PADDING if scene.widths else 2 * PADDING
    height = max(map(scene.compute_y, places.heights), default=0.0) + HEIGHT / 2 + PADDING
    return Picture(graph, width, height, boxes, lines)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A layout with the left edge and width of each column in pixels."""

    layout: Layout
    left: tuple[float, ...]
    widths: tuple[float, ...]

    def compute_y(self, place: Place) -> float:
        return PADDING + HEIGHT / 2 + self.layout.heights[place] * ROW


def _make_scene(places: Layout) -> _Scene:
    widths: list[float] = []
    for column in places.columns:
        names = [place for place in column if isinstance(place, str)]
        widths.append(max((len(name) * LETTER + 24 for name in names), default=BEND))
    offsets = [PADDING]
    for width in widths[:-1]:
        offsets.append(offsets[-1] + width + GAP)
    return _Scene(places, tuple(offsets), tuple(widths))


def _draw_curve(edge: Edge, scene: _Scene, columns: Mapping[Place, int]) -> str:
    """Draw a curve between two boxes that runs level through the columns in between."""
    stops: Sequence[Place] = (edge.left, *edge.bends, edge.right)
    column = columns[edge.left]
    x, y = scene.left[column] + scene.widths[column], scene.compute_y(edge.left)
    way = [f"M{x:.1f},{y:.1f}"]
    for stop in stops[1:]:
        column = columns[stop]
        to_x, to_y = scene.left[column], scene.compute_y(stop)
        middle = (x + to_x) / 2
        way.append(f"C{middle:.1f},{y:.1f} {middle:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
        if stop != edge.right:
            x += scene.widths[column]
            way.append(f"H{x:.1f}")
    return " ".join(way)
