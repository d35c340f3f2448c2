"""MCP client sessions: every tool call judged, everything a server says labelled.

Owns a proxy with the session's own face. Refuses to trust a server's word about itself: annotations and
labels in a server's answers are not read. Tested with mcp 1.30.0 and 2.3.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import Holder, engine_of
from agentserver.provenance.leaves import plain

if TYPE_CHECKING:
    from agentserver.provenance.session import Engine


class TrackedSession:
    """Stands in for a ``ClientSession`` or a ``Client``; what it does not name goes there unchanged.

    A tool's name is judged as the server calls it, after ``prefix`` when one server's names must be told from
    another's.
    """

    def __init__(self, session: Any, engine: Engine | Holder, prefix: str = "") -> None:
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
        await engine_of(self._holder).acall(tool, given)
        result = await self._session.call_tool(name, arguments, **more)
        structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        texts = [getattr(block, "text", None) or plain(block) for block in getattr(result, "content", [])]
        said = {"structured": structured, "content": texts} if structured else texts
        engine_of(self._holder).on_tool_result(tool, said, arguments=given)
        return result

    async def read_resource(self, uri: Any, **more: Any) -> Any:
        """Labels a resource: it is a stranger's document like any page."""
        result = await self._session.read_resource(uri, **more)
        engine = engine_of(self._holder)
        engine.on_tool_result(f"{self._prefix}read_resource", plain(result), arguments={"uri": str(uri)})
        return result

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None, **more: Any) -> Any:
        """Labels a prompt: a server's prompt is the server's words, not the user's."""
        result = await self._session.get_prompt(name, arguments, **more)
        engine = engine_of(self._holder)
        engine.on_tool_result(f"{self._prefix}get_prompt", plain(result), arguments=arguments or {})
        return result
