"""Completions by language models, for handlers. Importing this module imports no SDK.

from agentserver.llm import complete

response = await complete(model="small", messages=[{"role": "user", "content": "ping"}])
response.content, response.calls, response.usage, response.model, response.finish
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.completion import (
    Attempt,
    Completion,
    CompletionError,
    CompletionFault,
    Finish,
    PromptMessage,
    Request,
    Tool,
    ToolCall,
    Usage,
)
from agentserver.contract import invocation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Attempt",
    "Completion",
    "CompletionError",
    "CompletionFault",
    "Finish",
    "PromptMessage",
    "Tool",
    "ToolCall",
    "Usage",
    "complete",
]


async def complete(
    *,
    model: str,
    messages: Sequence[PromptMessage | Mapping[str, Any]],
    agent_id: str | None = None,
    tools: Sequence[Tool | type] = (),
    output: type | None = None,
    repairs: int = 2,
    allow_partial: bool = False,
) -> Completion:
    """Complete a prompt with one of the organism's models.

    Args:
        model: a name under ``llm: models``.
        messages: mappings with ``role`` (system, user, assistant, tool) and ``content``, or PromptMessages.
        agent_id: the agent that asks, such as ``metadata.own_name``. It is passed to a program's own completer;
            budgets are always those of the listener.
        tools: available to the model: Tools, or ``@xmlify`` classes.
        output: the ``@xmlify`` class of the answer, which comes as ``.output``.
        repairs: how often an answer that is not of that class goes back to the model with its faults.
        allow_partial: give an answer that is not whole too, with its ``finish``, instead of raising. It has no
            ``output``, and no other backend is asked for a whole one.

    Raises:
        RuntimeError: no handler is running, or the organism declares no ``llm:``.
        CompletionError: there is no whole answer; ``fault`` says why, and ``partial`` has what there is of one.
        LookupError: there is no such model.
        ValueError: a message, a tool or the class cannot be sent.
    """
    running = invocation()
    completer = running.completer
    if completer is None:
        raise RuntimeError("the organism declares no language models: add llm: to the YAML")
    agent = agent_id or ""
    return await completer.complete(
        model,
        Request(
            tuple(messages),
            agent,
            running.until,
            tuple(tools),
            output,
            repairs,
            running.purse,
            partial=allow_partial,
        ),
    )
