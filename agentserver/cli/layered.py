"""Places for a directed graph in columns, so that most edges run from left to right.

Owns the layered drawing method (Sugiyama, Tagawa, Toda 1981): break cycles, rank by longest path, order each column
by the mean of its neighbours, then place. Pure and deterministic. Refuses to know what nodes mean and how they look.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SWEEPS = 12
"""The number of times that the columns are ordered anew."""

Bend: TypeAlias = tuple[str, str, int]
"""The place at which an edge passes a column between its ends: its nodes and the rank."""

Place: TypeAlias = "str | Bend"


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from ``left`` to ``right``, which stands in a later column.

    Args:
        forward: whether it leads from left to right.
        backward: whether it leads from right to left; both may hold.
        bends: the places between, from left to right.
    """

    left: str
    right: str
    forward: bool
    backward: bool
    bends: tuple[Bend, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns from left to right, each place's height in units of one row, and the edges."""

    columns: tuple[tuple[Place, ...], ...]
    heights: Mapping[Place, float]
    edges: tuple[Edge, ...]


def layout(nodes: Sequence[str], arrows: Iterable[tuple[str, str]]) -> Layout:
    """Places for nodes in their given order. Arrows from a node to itself are left out."""
    wanted = {(a, b) for a, b in arrows if a != b}
    directed = _acyclic(nodes, wanted)
    ranks = _ranks(nodes, directed)
    edges = tuple(
        Edge(
            a, b, (a, b) in wanted, (b, a) in wanted, tuple((a, b, r) for r in range(ranks[a] + 1, ranks[b]))
        )
        for a, b in directed
    )
    columns: list[list[Place]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in nodes:
        columns[ranks[node]].append(node)
    for edge in edges:
        for bend in edge.bends:
            columns[bend[2]].append(bend)
    links = [link for edge in edges for link in pairwise(_stops(edge))]
    ordered = _ordered(columns, links)
    return Layout(tuple(map(tuple, ordered)), _heights(ordered, links), edges)


def _acyclic(nodes: Sequence[str], arrows: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each connected pair once, in a direction that makes no cycle: along a depth-first walk from the sources."""
    place = {node: i for i, node in enumerate(nodes)}
    outgoing: dict[str, list[str]] = {node: [] for node in nodes}
    for a, b in sorted(arrows, key=lambda arrow: (place[arrow[0]], place[arrow[1]])):
        outgoing[a].append(b)
    reached = {b for _, b in arrows}
    finished: dict[str, int] = {}
    for start in sorted(nodes, key=lambda node: (node in reached, place[node])):
        _finish(start, outgoing, finished)
    pairs = {(a, b) if finished[a] > finished[b] else (b, a) for a, b in arrows}
    return sorted(pairs, key=lambda pair: (place[pair[0]], place[pair[1]]))


def _finish(start: str, outgoing: Mapping[str, list[str]], finished: dict[str, int]) -> None:
    """Number every node in the order in which a depth-first walk leaves it."""
    seen = {start} | set(finished)
    if start in finished:
        return
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


def _ranks(nodes: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    ranks = dict.fromkeys(nodes, 0)
    for _ in nodes:
        moved = False
        for a, b in pairs:
            if ranks[b] <= ranks[a]:
                ranks[b], moved = ranks[a] + 1, True
        if not moved:
            break
    return ranks


def _ordered(columns: list[list[Place]], links: Sequence[tuple[Place, Place]]) -> list[list[Place]]:
    """The order with the fewest crossings among those that the sweeps find."""
    before, after = _neighbours(links)
    best, fewest = [list(column) for column in columns], _crossings(columns, links)
    current = [list(column) for column in columns]
    for sweep in range(SWEEPS):
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
        near = [where[place] for place in neighbours.get(entry[1], ())]
        return sum(near) / len(near) if near else float(entry[0])

    return [place for _, place in sorted(enumerate(column), key=mean)]


def _crossings(columns: Sequence[Sequence[Place]], links: Sequence[tuple[Place, Place]]) -> int:
    """Count the crossings of links between the same two columns."""
    where = {place: (rank, i) for rank, column in enumerate(columns) for i, place in enumerate(column)}
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for a, b in links:
        spans[where[a][0]].append((where[a][1], where[b][1]))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for span in spans.values()
        for i, a in enumerate(span)
        for b in span[:i]
    )


def _heights(columns: Sequence[Sequence[Place]], links: Sequence[tuple[Place, Place]]) -> dict[Place, float]:
    """Heights near the mean of the neighbours, in the order of the column, a row apart. The least is 0."""
    before, after = _neighbours(links)
    heights: dict[Place, float] = {place: float(i) for column in columns for i, place in enumerate(column)}
    for sweep in range(SWEEPS):
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
