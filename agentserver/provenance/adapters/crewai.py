"""CrewAI: tool hooks for as long as a block of code runs.

Owns registering and removing them: CrewAI's hooks are global to the process. Refuses by answering, never by
raising: CrewAI drops the exceptions of a hook and goes on, so a call that could not be judged is refused, and an output
that could not be labelled is withheld.
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
"""The text that a model is shown instead of an output that could not be labelled."""


@dataclass(slots=True)
class _Step:
    """The work of a hook. An exception of any kind ends here; ``done`` says whether the work was done."""

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
        with _Step() as step:
            engine_of(engine).on_tool_call(context.tool_name, dict(context.tool_input))
        return None if step.done else False

    def after(context: Any) -> str | None:
        """Label an output; text that is returned takes its place."""
        with _Step() as step:
            raw = getattr(context, "raw_tool_result", None)
            said = context.tool_result if raw is None else raw
            engine_of(engine).on_tool_result(context.tool_name, said, arguments=dict(context.tool_input))
        return None if step.done else WITHHELD

    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)
    try:
        yield
    finally:
        unregister_before_tool_call_hook(before)
        unregister_after_tool_call_hook(after)
