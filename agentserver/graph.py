"""The peers of an organism as a graph, written as Mermaid or DOT. Pure and deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.blueprint import Listener


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

    def iter_arrows(self) -> Iterator[tuple[str, str]]:
        """Yield each arrow as sender and receiver, in the order of the organism."""
        places = {listener.name: place for place, listener in enumerate(self.listeners)}
        for listener in self.listeners:
            drawn = sorted(listener.peers & places.keys(), key=places.__getitem__)
            yield from ((listener.name, peer) for peer in drawn)


def to_mermaid(graph: Graph) -> str:
    """Write a Mermaid flowchart. Agents are round, listeners of broadcasts have a double border."""
    ids = {listener.name: f"n{i}" for i, listener in enumerate(graph.listeners)}
    lines = ["flowchart LR"]
    for listener in graph.listeners:
        opening, closing = "(", ")"
        if not listener.agent:
            opening, closing = ("[[", "]]") if listener.broadcast else ("[", "]")
        lines.append(f'    {ids[listener.name]}{opening}"{listener.name}"{closing}')
    lines += [f"    {ids[a]} --> {ids[b]}" for a, b in graph.iter_arrows()]
    lines += [f"    %% {note}" for note in graph.notes]
    return "\n".join(lines) + "\n"


def to_dot(graph: Graph) -> str:
    """Write a DOT digraph."""
    lines = [f"digraph {_quote(graph.name)} {{", "    rankdir=LR;", "    node [shape=box];"]
    for listener in graph.listeners:
        look = ["style=rounded"] if listener.agent else []
        look += ["peripheries=2"] if listener.broadcast else []
        tip = f"tooltip={_quote(listener.description)}"
        lines.append(f"    {_quote(listener.name)} [{', '.join([*look, tip])}];")
    lines += [f"    {_quote(a)} -> {_quote(b)};" for a, b in graph.iter_arrows()]
    lines += [f"    // {note}" for note in graph.notes]
    return "\n".join([*lines, "}"]) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
