from __future__ import annotations

import pytest

from agentserver.core.blueprint import Listener
from agentserver.graph import Graph, to_dot, to_mermaid


def make_graph(*facts):
    return Graph(
        "g",
        tuple(
            Listener(name, (int,), f"does {name}", agent=a, broadcast=b, peers=frozenset(p))
            for name, a, b, p in facts
        ),
    )


SMALL = make_graph(
    ("desk", True, False, "ab"), ("a", False, False, ["b", "desk", "a"]), ("b", False, True, ["system.todo"])
)


def test_mermaid():
    assert to_mermaid(SMALL).splitlines() == [
        "flowchart LR", '    n0("desk")', '    n1["a"]', '    n2[["b"]]',
        "    n0 --> n1", "    n0 --> n2", "    n1 --> n0", "    n1 --> n1", "    n1 --> n2",
    ]  # fmt: skip


def test_dot():
    text = to_dot(Graph('a "b"', SMALL.listeners))
    assert text.startswith('digraph "a \\"b\\"" {\n')
    assert '    "desk" [style=rounded, tooltip="does desk"];' in text
    assert '    "b" [peripheries=2, tooltip="does b"];' in text
    assert '    "a" -> "b";' in text


def test_a_description_cannot_add_to_the_drawing():
    sly = Graph("g", (Listener("a", (int,), 'x"]; evil [label="y'),))
    assert 'tooltip="x\\"]; evil [label=\\"y"' in to_dot(sly)
    assert "evil" not in to_mermaid(sly)


@pytest.mark.parametrize(("form", "begins"), [("mermaid", "flowchart"), ("dot", "digraph")])
def test_the_verb_draws(command, here, tmp_path, form, begins):
    assert command("graph", "--format", form).output.startswith(begins)
    target = tmp_path / "new" / "graph"
    assert command("graph", "--format", form, "-o", str(target)).output == ""
    assert target.read_text().startswith(begins)
