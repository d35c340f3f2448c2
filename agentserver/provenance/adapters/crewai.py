"""CrewAI: tool hooks for as long as a block of code runs.

Owns registering and removing them: CrewAI's hooks are global to the process. Refuses by answering, never by
raising, because CrewAI goes on when a hook raises. Tested with crewai 1.15.30.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import Holder, engine_of
from agentserver.provenance.classic import TaintViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.session import Engine


@contextmanager
def hooks(engine: Engine | Holder) -> Iterator[None]:
    """Within the block, every tool call of every crew is judged and labelled.

    A refused call does not run; the agent goes on with CrewAI's own words for that.
    """
    from crewai.hooks import (  # type: ignore[import-not-found,unused-ignore]
        register_after_tool_call_hook,
        register_before_tool_call_hook,
        unregister_after_tool_call_hook,
        unregister_before_tool_call_hook,
    )

    def before(context: Any) -> bool | None:
        """CrewAI runs no tool whose hook answers ``False``."""
        try:
            engine_of(engine).on_tool_call(context.tool_name, dict(context.tool_input))
        except TaintViolationError:
            return False
        return None

    def after(context: Any) -> str | None:
        raw = getattr(context, "raw_tool_result", None)
        said = context.tool_result if raw is None else raw
        engine_of(engine).on_tool_result(context.tool_name, said, arguments=dict(context.tool_input))
        return None

    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)
    try:
        yield
    finally:
        unregister_before_tool_call_hook(before)
        unregister_after_tool_call_hook(after)
