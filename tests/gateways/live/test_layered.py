from __future__ import annotations

import random
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.blueprint import Listener
from agentserver.gateways.live.layout import STEPS, SWEEPS, _count_crossings, draw_picture, lay_out
from agentserver.graph import Graph

NAMES = [f"n{i}" for i in range(9)]
ARROWS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=25)


@given(ARROWS)
def test_every_arrow_is_kept_and_every_line_runs_to_a_later_column(arrows):
    found = lay_out(NAMES, arrows)
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
    found = lay_out(NAMES, arrows)
    assert min(found.heights.values()) == 0
    for column in found.columns:
        heights = [found.heights[place] for place in column]
        assert all(b - a > 0.999 for a, b in pairwise(heights))


@given(ARROWS)
def test_the_same_arrows_give_the_same_places(arrows):
    assert lay_out(NAMES, arrows) == lay_out(NAMES, reversed(arrows))


def test_columns_are_ordered_to_avoid_crossings():
    found = lay_out(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    assert found.columns == (("a", "b"), ("y", "x"))


def test_nothing_is_placed_nowhere():
    assert lay_out([], []).columns == ()


def calls(work):
    """Calls of Python functions and of built-in ones."""
    counted = 0

    def count(frame, event, arg):
        nonlocal counted
        counted += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def large(size, group=1):
    chance = random.Random(size)
    names = [f"g{i // group}.n{i}" for i in range(size)]
    arrows = [(chance.choice(names), chance.choice(names)) for _ in range(3 * size)]
    return names, arrows


@pytest.mark.parametrize("size", [500, 2000])
def test_a_large_graph_is_laid_out_within_a_budget(size):
    names, arrows = large(size)
    assert calls(lambda: lay_out(names, arrows)) < 12 * STEPS
    found = lay_out(names, arrows)
    assert found.sweeps < SWEEPS
    assert {place for column in found.columns for place in column if isinstance(place, str)} == set(names)


def test_a_large_graph_is_drawn_in_groups():
    names, arrows = large(500, group=50)
    peers = {name: frozenset(b for a, b in arrows if a == name) for name in names}
    listeners = tuple(Listener(name, (), f"{name}.", peers=peers[name]) for name in names)
    drawn = draw_picture(Graph("large", listeners))
    assert [note for note in drawn.graph.notes if "500 listeners as 10 boxes" in note]
    assert len(drawn.boxes) == 10
    assert "50 listeners" in [box.listener.description for box in drawn.boxes if box.listener.name == "g3"]


def test_crossings_are_counted():
    columns = [["a", "b", "c"], ["x", "y", "z"]]
    links = [("a", "z"), ("b", "x"), ("c", "y"), ("a", "x"), ("b", "z")]
    assert _count_crossings(columns, links) == 3
