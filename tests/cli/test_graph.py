from __future__ import annotations

import random

import pytest
from lxml import etree

from agentserver.core.blueprint import Listener
from agentserver.drawing import svg
from agentserver.drawing.picture import Graph

SVG = "{http://www.w3.org/2000/svg}"


def made(*facts):
    return Graph(
        "g",
        tuple(
            Listener(name, (int,), f"does {name}", agent=a, broadcast=b, peers=frozenset(p))
            for name, a, b, p in facts
        ),
    )


SMALL = made(
    ("desk", True, False, "ab"), ("a", False, False, ["b", "desk", "a"]), ("b", False, True, ["system.todo"])
)


def test_mermaid():
    assert svg.to_mermaid(SMALL).splitlines() == [
        "flowchart LR", '    n0("desk")', '    n1["a"]', '    n2[["b"]]',
        "    n0 --> n1", "    n0 --> n2", "    n1 --> n0", "    n1 --> n1", "    n1 --> n2",
    ]  # fmt: skip


def test_dot():
    text = svg.to_dot(Graph('a "b"', SMALL.listeners))
    assert text.startswith('digraph "a \\"b\\"" {\n')
    assert '    "desk" [style=rounded, tooltip="does desk"];' in text
    assert '    "b" [peripheries=2, tooltip="does b"];' in text
    assert '    "a" -> "b";' in text


def test_svg_shows_every_listener_and_arrow():
    root = etree.fromstring(svg.to_svg(SMALL))
    labels = [e.text for e in root.iter(f"{SVG}text")]
    assert labels == ["desk", "a", "b", svg.LEGEND]
    titles = {e.find(f"{SVG}title").text for e in root.iter(f"{SVG}path") if e.get("class") == "edge"}
    assert titles == {"desk <-> a", "desk -> b", "a -> b"}


def test_a_description_cannot_add_to_the_drawing():
    sly = Graph("g", (Listener("a", (int,), "<script>alert(1)</script>"),))
    assert not list(etree.fromstring(svg.to_svg(sly)).iter(f"{SVG}script"))


def test_twenty_listeners_do_not_overlap():
    pick = random.Random(3)
    names = [f"desk.{i}" for i in range(20)]
    graph = made(
        *(
            (n, i % 4 == 0, i % 7 == 0, pick.sample(names, pick.choice([0, 1, 2, 3])))
            for i, n in enumerate(names)
        )
    )
    drawn = svg.to_svg(graph)
    assert drawn == svg.to_svg(graph)
    boxes = [
        tuple(float(e.get(k)) for k in ("x", "y", "width", "height"))
        for e in etree.fromstring(drawn).iter(f"{SVG}rect")
    ]
    assert len(boxes) == 20
    for i, (x, y, w, h) in enumerate(boxes):
        for a, b, c, d in boxes[:i]:
            assert x + w < a or a + c < x or y + h < b or b + d < y


@pytest.mark.parametrize(("form", "begins"), [("mermaid", "flowchart"), ("dot", "digraph"), ("svg", "<svg")])
def test_the_verb_draws(command, here, tmp_path, form, begins):
    assert command("graph", "--format", form).output.startswith(begins)
    target = tmp_path / "new" / "graph"
    assert command("graph", "--format", form, "-o", str(target)).output == ""
    assert target.read_text().startswith(begins)
