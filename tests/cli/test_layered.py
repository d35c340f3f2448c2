from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentserver.cli.layered import layout

NAMES = [f"n{i}" for i in range(9)]
ARROWS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=25)


@given(ARROWS)
def test_every_arrow_is_kept_and_every_line_runs_to_a_later_column(arrows):
    found = layout(NAMES, arrows)
    columns = {place: i for i, column in enumerate(found.columns) for place in column}
    assert {place for place in columns if isinstance(place, str)} == set(NAMES)
    kept = {(e.left, e.right) for e in found.edges if e.forward} | {
        (e.right, e.left) for e in found.edges if e.backward
    }
    assert kept == {(a, b) for a, b in arrows if a != b}
    for edge in found.edges:
        stops = [columns[stop] for stop in (edge.left, *edge.bends, edge.right)]
        assert stops == list(range(stops[0], stops[-1] + 1))
        assert stops[0] < stops[-1]


@given(ARROWS)
def test_places_of_a_column_are_a_row_apart(arrows):
    found = layout(NAMES, arrows)
    assert min(found.heights.values()) == 0
    for column in found.columns:
        heights = [found.heights[place] for place in column]
        assert all(b - a > 0.999 for a, b in pairwise(heights))


@given(ARROWS)
def test_the_same_arrows_give_the_same_places(arrows):
    assert layout(NAMES, arrows) == layout(NAMES, reversed(arrows))


def test_columns_are_ordered_to_avoid_crossings():
    found = layout(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    assert found.columns == (("a", "b"), ("y", "x"))


def test_nothing_is_placed_nowhere():
    assert layout([], []).columns == ()
