"""Walls that an organism asks for and that this machine does not have.

Owns the findings about them. Refuses to raise one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.config import Organism
    from agentserver.config.findings import ConfigMistake


def unwalled(organism: Organism) -> Iterator[ConfigMistake]:
    """Errors about handlers and programs that ask for a wall where this machine cannot hold them."""
    sources = {bound.listener.name: bound.source for bound in organism.listeners}
    asked = [
        (bound.source, bool(bound.isolation.ports), False)
        for bound in organism.listeners
        if bound.isolation is not None and not bound.isolation.remote
    ] + [
        (sources[server.tools[0].listener], bool(server.isolation.ports), server.isolation.fork)
        for server in organism.mcp
        if server.isolation is not None and server.tools
    ]
    if not asked:
        return
    from agentserver.config.findings import ConfigMistake, Severity
    from agentserver.remedies import remedy_of
    from agentserver.remedies.configuration import ConfigCode
    from agentserver.worker.wall.raising import missing

    code = remedy_of("wall", "lacks") or ConfigCode.ISOLATION.value

    for place, ports, fork in asked:
        for lacking in missing(ports=ports, fork=fork):
            told = f"this machine lacks {lacking}"
            yield ConfigMistake(code, Severity.ERROR, place.file, place.line, "isolation", told)
