"""MCP adapter: a session proxy that judges tool calls and labels the answers of tools, resources and prompts.

A server's labels about itself are not trusted, hence not read; the schemas of its tools tighten by themselves, and
loosen where the policy lists the tool under ``schemas``. The proxy does not see descriptions in
listings, log messages, sampling and elicitation: a host shows those to a model at its own risk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import EngineHolder, ErrorLabels, engine_of
from agentserver.provenance.evidence.leaves import simplify

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agentserver.provenance.library.session import Engine

__all__ = ["TrackedSession"]


class TrackedSession:
    """Proxy for a ``ClientSession`` or a ``Client``, which gets all other attributes unchanged.

    A tool is judged by the server's name for it. Set ``prefix`` to distinguish the tools of several servers.
    """

    def __init__(self, session: Any, engine: Engine | EngineHolder, prefix: str = "") -> None:
        self._session = session
        self._holder = engine
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
        """Judge the call, make it, and label the result.

        Raises:
            TaintViolationError: the call must not run; the server never sees it.
        """
        tool, passed = self._prefix + name, arguments or {}
        engine = engine_of(self._holder)
        await engine.acall(tool, passed)
        with ErrorLabels(engine, tool, passed):
            result = await self._session.call_tool(name, arguments, **options)
        structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        texts = [getattr(block, "text", None) or simplify(block) for block in getattr(result, "content", [])]
        answer = {"structured": structured, "content": texts} if structured else texts
        engine.on_tool_result(tool, answer, arguments=passed)
        return result

    async def list_tools(self, *args: Any, **options: Any) -> Any:
        """List the tools, and add their schemas to the engine."""
        listed = await self._session.list_tools(*args, **options)
        for each in getattr(listed, "tools", ()):
            schema = getattr(each, "inputSchema", None) or getattr(each, "input_schema", None)
            if isinstance(schema, dict):
                engine_of(self._holder).describe_tool(self._prefix + each.name, schema)
        return listed

    async def read_resource(self, uri: Any, **options: Any) -> Any:
        """Read a resource and label it: a stranger may have written it, as with any page."""
        return await self._label_answer(
            "read_resource", {"uri": str(uri)}, self._session.read_resource(uri, **options)
        )

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None, **options: Any) -> Any:
        """Get a prompt and label it: the server wrote it, not the user."""
        prompt = self._session.get_prompt(name, arguments, **options)
        return await self._label_answer("get_prompt", {"name": name, **(arguments or {})}, prompt)

    async def _label_answer(self, source: str, arguments: dict[str, Any], answer: Awaitable[Any]) -> Any:
        engine, tool = engine_of(self._holder), self._prefix + source
        with ErrorLabels(engine, tool, arguments):
            result = await answer
        engine.on_tool_result(tool, simplify(result), arguments=arguments)
        return result
