"""The picture of the organism as plain values for a page.

Owns that it is laid out once, in a thread, for as long as the organism stays the same. Refuses to know how it looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from agentserver.characters.printing import escape_unseen
from agentserver.drawing.picture import HEIGHT, Graph, draw_picture
from agentserver.payload.names import local

if TYPE_CHECKING:
    from agentserver.core.blueprint import Blueprint
    from agentserver.drawing.picture import Picture


class Scenery:
    """Lays an organism out when it is first asked for it, and again when it is another one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._of: Blueprint | None = None
        self._told: dict[str, Any] = {}
        self._one = anyio.Lock()
        self.drawn = 0

    async def told(self, blueprint: Blueprint) -> dict[str, Any]:
        """The picture of an organism and its listeners."""
        async with self._one:
            if self._of is not blueprint:
                graph = Graph(self._name, tuple(blueprint.listeners.values()))
                drawn = await anyio.to_thread.run_sync(draw_picture, graph)
                self._told, self._of = _told(drawn, self._name, blueprint), blueprint
                self.drawn += 1
            return self._told


def _told(drawn: Picture, title: str, blueprint: Blueprint) -> dict[str, Any]:
    boxes = [
        {
            "name": box.listener.name,
            "x": box.x,
            "y": box.y,
            "width": box.width,
            "height": HEIGHT,
            "agent": box.listener.agent,
            "broadcast": box.listener.broadcast,
            "members": box.members,
        }
        for box in drawn.boxes
    ]
    lines = [
        {
            "left": line.left,
            "right": line.right,
            "forward": line.forward,
            "backward": line.backward,
            "way": line.way,
        }
        for line in drawn.lines
    ]
    return {
        "name": title,
        "width": drawn.width,
        "height": drawn.height,
        "notes": drawn.graph.notes,
        "boxes": boxes,
        "lines": lines,
        "listeners": _listeners(blueprint),
    }


def _listeners(blueprint: Blueprint) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "description": escape_unseen(one.description),
            "agent": one.agent,
            "approval": one.approval,
            "peers": sorted(one.peers),
            "takes": sorted(map(local, blueprint.roots.get(one.name, ()))),
            "room": one.concurrency,
        }
        for one in blueprint.listeners.values()
    ]
