"""Replacements of everything through which an organism under test would leave the process.

Replaced are handlers with a script, models of providers, tools of MCP servers, resources and spans. A test
keeps conversations in memory.
"""

from __future__ import annotations

import difflib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.testing.models import replace_providers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from agentserver.config import Organism
    from agentserver.config.organism import BoundListener, Lifespan
    from agentserver.contract import HandlerMetadata, HandlerResult
    from agentserver.testing.models import ScriptedModel
    from agentserver.testing.peers import ScriptedPeer

    Resources: TypeAlias = Sequence[object] | Lifespan


@dataclass
class Standins:
    """Stand-ins of one test.

    Args:
        peers: by listener.
        models: by model.
        faults: of calls without a script.
    """

    peers: Mapping[str, ScriptedPeer]
    models: Mapping[str, ScriptedModel]
    faults: list[AssertionError] = field(default_factory=list)

    def check(self) -> None:
        """Raise the first failure inside a script, or of a call without a script."""
        scripts: list[list[AssertionError]] = [self.faults]
        scripts += [each.faults for each in self.peers.values()]
        scripts += [each.faults for each in self.models.values()]
        for fault in chain.from_iterable(scripts):
            raise fault

    def replace_parts(self, loaded: Organism, resources: Resources | None, *, real_tools: bool) -> Organism:
        """Put the replacements into an organism.

        Raises ValueError for unknown names, and for missing resources.
        """
        check_names(self.peers, [bound.listener.name for bound in loaded.listeners])
        tools = {tool.listener for server in loaded.mcp for tool in server.tools}
        return replace(
            loaded,
            listeners=tuple(
                self._replace_listener(bound, real=real_tools or bound.listener.name not in tools)
                for bound in loaded.listeners
            ),
            models=replace_providers(loaded.models, self.models, self.faults),
            lifespan=lifespan_of(loaded, resources),
            mcp=loaded.mcp if real_tools else (),
            otel=None,
        )

    def _replace_listener(self, bound: BoundListener, *, real: bool) -> BoundListener:
        name = bound.listener.name
        if name in self.peers:
            return replace(bound, handler=self.peers[name], isolation=None)
        if not real:
            why = "is a tool of an MCP server, which a test starts with real_tools=True alone"
            return replace(bound, handler=UnscriptedListener(name, why, self.faults))
        if bound.isolation is not None and bound.isolation.lifespan is not None:
            why = "has a worker_lifespan, which a test does not enter"
            return replace(bound, handler=UnscriptedListener(name, why, self.faults), isolation=None)
        if bound.isolation is not None and bound.isolation.remote:  # a test has no other machine
            return replace(bound, isolation=replace(bound.isolation, remote=False))
        return bound


class UnscriptedListener:
    """Listener that a test must not call."""

    def __init__(self, name: str, why: str, faults: list[AssertionError]) -> None:
        self._name, self._why, self._faults = name, why, faults

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        """Fail and name the missing argument."""
        del payload, metadata
        missing = f'give organism(..., scripted={{"{self._name}": [...]}})'
        fault = AssertionError(f"{self._name} {self._why}: {missing}")
        self._faults.append(fault)
        raise fault


def check_names(given: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise ValueError for the script of an unknown listener."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ValueError(f"no listener {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def lifespan_of(loaded: Organism, resources: Resources | None) -> Lifespan | None:
    """Choose the lifespan of a test: its own resources, or the one of an organism made in code.

    Raises ValueError if the YAML of an organism declares one and the test gives no resources.
    """
    if callable(resources):
        return resources
    if resources is not None:
        given = tuple(resources)

        @asynccontextmanager
        async def provide() -> AsyncIterator[tuple[object, ...]]:
            yield given

        return provide
    if loaded.lifespan is not None and loaded.files:
        name = getattr(loaded.lifespan, "__qualname__", "lifespan")
        raise ValueError(
            f"lifespan: {name} opens resources, which a test does not: give organism(..., resources=[...]), "
            f"or a function that gives a context manager"
        )
    return loaded.lifespan
