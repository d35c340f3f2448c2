"""CrewAI adapter: tool hooks that are registered while a block of code runs.

CrewAI's hooks are global to the process, and CrewAI drops their exceptions and continues. So a refusal is an answer
and never an exception: a call that could not be judged is refused, an output that could not be labelled is withheld.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from agentserver.provenance.adapters.decorator import EngineHolder, engine_of
from agentserver.provenance.library.compat import TaintViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from agentserver.provenance.library.session import Engine

__all__ = ["hooks"]

_log: Final = logging.getLogger(__name__)

WITHHELD = "The output is withheld."
"""Replacement that the model reads when an output could not be labelled."""


@dataclass(slots=True)
class _HookErrors:
    """Context manager that catches every exception of a hook; ``done`` is false after one."""

    done: bool = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.done = error is None
        if isinstance(error, Exception) and not isinstance(error, TaintViolationError):
            _log.error("a tool hook failed, so its tool is refused", exc_info=error)
        return isinstance(error, Exception)


@contextmanager
def hooks(engine: Engine | EngineHolder) -> Iterator[None]:
    """Judge and label every tool call of every crew within the block.

    A refused call does not run; the agent continues with CrewAI's own message about it.
    """
    from crewai.hooks import (  # type: ignore[import-not-found,unused-ignore]
        register_after_tool_call_hook,
        register_before_tool_call_hook,
        unregister_after_tool_call_hook,
        unregister_before_tool_call_hook,
    )

    def judge_call(context: Any) -> bool | None:
        """Answer ``False`` to refuse: CrewAI then does not run the tool."""
        with _HookErrors() as step:
            engine_of(engine).on_tool_call(context.tool_name, dict(context.tool_input))
        return None if step.done else False

    def label_result(context: Any) -> str | None:
        """Label an output; a returned text replaces it."""
        with _HookErrors() as step:
            raw = getattr(context, "raw_tool_result", None)
            result = context.tool_result if raw is None else raw
            engine_of(engine).on_tool_result(context.tool_name, result, arguments=dict(context.tool_input))
        return None if step.done else WITHHELD

    register_before_tool_call_hook(judge_call)
    register_after_tool_call_hook(label_result)
    try:
        yield
    finally:
        unregister_before_tool_call_hook(judge_call)
        unregister_after_tool_call_hook(label_result)
