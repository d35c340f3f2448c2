"""Lays out a directed graph in columns, so that most edges run from left to right.

Uses the layered method (Sugiyama, Tagawa, Toda 1981): break cycles, rank by longest path, order each column by the
mean of its neighbours, then assign heights. Pure and deterministic.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    wanted = {(a, b) for a, b in arrows if a != b}
    order, directed = _acyclic(nodes, wanted)
    ranks = _ranks(order, directed)
    between = sum(ranks[b] - ranks[a] - 1 for a, b in directed)
    effort = len(nodes) + len(directed) + 2 * between
    bent = effort <= STEPS // 2
    edges = tuple(
        Edge(
            a,
            b,
            (a, b) in wanted,
            (b, a) in wanted,
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
    links = [link for edge in edges for link in pairwise(_stops(edge))]
    ordered = _order_columns(columns, links, sweeps)
    return Layout(tuple(map(tuple, ordered)), _heights(ordered, links, sweeps), edges, sweeps)


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


def _ranks(order: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
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
    best, fewest = [list(column) for column in columns], _crossings(columns, links)
    current = [list(column) for column in columns]
    for sweep in range(sweeps):
        forward = sweep % 2 == 0
        indexes = range(1, len(current)) if forward else range(len(current) - 2, -1, -1)
        for i in indexes:
            fixed = current[i - 1 if forward else i + 1]
            current[i] = _by_mean(current[i], fixed, before if forward else after)
        crossings = _crossings(current, links)
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
    where = {place: i for i, place in enumerate(fixed)}

    def mean(entry: tuple[int, Place]) -> float:
        near = [where[place] for place in neighbours.get(entry[1], ()) if place in where]
        return sum(near) / len(near) if near else float(entry[0])

    return [place for _, place in sorted(enumerate(column), key=mean)]


def _crossings(columns: Sequence[Sequence[Place]], links: Sequence[tuple[Place, Place]]) -> int:
    """Count the crossings of links between the same two columns."""
    where = {place: (rank, i) for rank, column in enumerate(columns) for i, place in enumerate(column)}
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for a, b in links:
        spans[where[a][0]].append((where[a][1], where[b][1]))
    return sum(map(_inversions, spans.values()))


def _inversions(span: list[tuple[int, int]]) -> int:
    """Count pairs of links that cross: one starts above the other and ends below it."""
    above: list[int] = []
    count = 0
    for _, right in sorted(span):
        count += len(above) - bisect_right(above, right)
        insort(above, right)
    return count


def _heights(
    columns: Sequence[Sequence[Place]], links: Sequence[tuple[Place, Place]], sweeps: int
) -> dict[Place, float]:
    """Assign heights near the mean of the neighbours, one row apart and in column order. The minimum is 0."""
    before, after = _neighbours(links)
    heights: dict[Place, float] = {place: float(i) for column in columns for i, place in enumerate(column)}
    for sweep in range(sweeps):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            _settle(column, before if forward else after, heights)
    least = min(heights.values(), default=0.0)
    return {place: height - least for place, height in heights.items()}


def _settle(
    column: Sequence[Place], neighbours: Mapping[Place, list[Place]], heights: dict[Place, float]
) -> None:
    wanted = []
    for place in column:
        near = [heights[each] for each in neighbours.get(place, ())]
        wanted.append(sum(near) / len(near) if near else heights[place])
    placed: list[float] = []
    for height in wanted:
        placed.append(height if not placed else max(height, placed[-1] + 1))
    shift = sum(a - b for a, b in zip(wanted, placed, strict=True)) / max(len(placed), 1)
    for place, height in zip(column, placed, strict=True):
        heights[place] = height + shift


def _stops(edge: Edge) -> tuple[Place, ...]:
    return (edge.left, *edge.bends, edge.right)
