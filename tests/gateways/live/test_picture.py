from __future__ import annotations

import random

from agentserver.core.blueprint import Listener
from agentserver.gateways.live.layout import HEIGHT, STEPS, draw_picture
from agentserver.graph import Graph
from tests.gateways.live.test_layered import calls


def graph(size, lines, *, group=1, seed=1):
    chance = random.Random(seed)
    names = [f"g{i // group}.n{i}" for i in range(size)]
    arrows = [(chance.choice(names), chance.choice(names)) for _ in range(lines)]
    peers = {name: frozenset(b for a, b in arrows if a == name) for name in names}
    return Graph("drawn", tuple(Listener(name, (), "", peers=peers[name]) for name in names))


def test_every_listener_is_in_one_box_inside_the_picture():
    for one in (graph(12, 20), graph(500, 1500, group=25)):
        drawn = draw_picture(one)
        members = [name for box in drawn.boxes for name in box.members]
        assert sorted(members) == sorted(listener.name for listener in one.listeners)
        for box in drawn.boxes:
            assert box.x >= 0
            assert box.y >= 0
            assert box.x + box.width <= drawn.width
            assert box.y + HEIGHT <= drawn.height


def test_boxes_stand_apart():
    boxes = draw_picture(graph(30, 60)).boxes
    for one in boxes:
        for other in boxes:
            apart = (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or abs(one.y - other.y) >= HEIGHT
            )
            assert one is other or apart


def test_every_arrow_has_a_line_between_the_boxes_of_its_ends():
    drawn = draw_picture(graph(40, 60))
    told = {(line.left, line.right) for line in drawn.lines if line.forward} | {
        (line.right, line.left) for line in drawn.lines if line.backward
    }
    assert told == {(a, b) for a, b in drawn.graph.iter_arrows() if a != b}


def test_beyond_the_budget_of_steps_listeners_are_grouped_and_drawn_within_it():
    wide = graph(500, 1500, group=50)
    assert [box.listener.name for box in draw_picture(wide).boxes] == [f"g{i}" for i in range(10)]
    assert calls(lambda: draw_picture(wide)) < 12 * STEPS


def test_an_organism_without_listeners_has_an_empty_picture():
    drawn = draw_picture(Graph("none", ()))
    assert (drawn.boxes, drawn.lines) == ((), ())
    assert drawn.width > 0
    assert drawn.height > 0
