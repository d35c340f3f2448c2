"""Google ADK adapter: a plugin for a runner that judges the tools of all its agents.

The model never learns why a call was refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import EngineHolder, engine_of
from agentserver.provenance.library.compat import REFUSED, TaintViolationError

if TYPE_CHECKING:
    from agentserver.provenance.library.session import Engine

__all__ = ["plugin"]

ANSWER = {"error": REFUSED}
"""Everything that a model learns about a refusal."""


def plugin(engine: Engine | EngineHolder, *, stop: bool = False) -> Any:
    """Build a plugin for ``Runner(plugins=[...])``.

    Args:
        engine: the engine, or a ``Sleuth``.
        stop: end the run on a refusal; otherwise the model only learns that the call was not permitted.
    """
    from google.adk.plugins.base_plugin import BasePlugin  # type: ignore[import-not-found,unused-ignore]

    class ProvenancePlugin(BasePlugin):  # type: ignore[misc,unused-ignore]
        """Plugin that judges and labels every tool call of the runner."""

        async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], **_: Any) -> Any:
            try:
                await engine_of(engine).acall(tool.name, tool_args)
            except TaintViolationError:
                if stop:
                    raise
                return dict(ANSWER)
            return None

        async def after_tool_callback(
            self, *, tool: Any, tool_args: dict[str, Any], result: Any, **_: Any
        ) -> Any:
            if result != ANSWER:
                engine_of(engine).on_tool_result(tool.name, result, arguments=tool_args)

        async def on_tool_error_callback(
            self, *, tool: Any, tool_args: dict[str, Any], error: BaseException, **_: Any
        ) -> Any:
            engine_of(engine).on_tool_result(tool.name, str(error), arguments=tool_args)

    return ProvenancePlugin(name="provenance")
