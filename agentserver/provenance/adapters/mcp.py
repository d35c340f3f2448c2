"""MCP client sessions: every tool call judged; what tools, resources, prompts and their errors say labelled.

Owns a proxy with the session's own face. Refuses to trust a server's word about itself: annotations and
labels in a server's answers are not read. Does not see what a server says unasked or about itself: descriptions in
its listings, log messages, sampling and elicitation. A host shows those to a model at its own risk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import EngineHolder, Working, engine_of
from agentserver.provenance.evidence.leaves import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agentserver.provenance.library.session import Engine

__all__ = ["TrackedSession"]


class TrackedSession:
    """Stands in for a ``ClientSession`` or a ``Client``; what it does not name goes there unchanged.

    A tool's name is judged as the server calls it, after ``prefix`` when one server's names must be told from
    another's.
    """

    def __init__(self, session: Any, engine: Engine | EngineHolder, prefix: str = "") -> None:
        self._session = session
        self._holder = engine
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
        """Judges, calls, labels.

        Raises:
            TaintViolationError: the call must not run; the server never sees it.
        """
        tool, given = self._prefix + name, arguments or {}
        engine = engine_of(self._holder)
        await engine.acall(tool, given)
        with Working(engine, tool, given):
            result = await self._session.call_tool(name, arguments, **more)
        structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        texts = [getattr(block, "text", None) or plain(block) for block in getattr(result, "content", [])]
        said = {"structured": structured, "content": texts} if structured else texts
        engine.on_tool_result(tool, said, arguments=given)
        return result

    async def read_resource(self, uri: Any, **more: Any) -> Any:
        """Labels a resource: it is a stranger's document like any page."""
        return await self._read("read_resource", {"uri": str(uri)}, self._session.read_resource(uri, **more))

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None, **more: Any) -> Any:
        """Labels a prompt: a server's prompt is the server's words, not the user's."""
        asked = self._session.get_prompt(name, arguments, **more)
        return await self._read("get_prompt", {"name": name, **(arguments or {})}, asked)

    async def _read(self, source: str, given: dict[str, Any], asked: Awaitable[Any]) -> Any:
        engine, tool = engine_of(self._holder), self._prefix + source
        with Working(engine, tool, given):
            result = await asked
        engine.on_tool_result(tool, plain(result), arguments=given)
        return result
