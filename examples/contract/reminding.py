"""An agent that registers a todo for an answer, and closes it when reminded."""

from __future__ import annotations

from dataclasses import dataclass

from adding import AddPayload, ResultPayload

from agentserver import HandlerMetadata, HandlerResponse, TodoRegistered, TodoUntil, get_todo_registry, xmlify


@xmlify
@dataclass(frozen=True, slots=True)
class Plan:
    """Numbers to add.

    Args:
        a: the first.
        b: the second.
    """

    a: int
    b: int


@xmlify
@dataclass(frozen=True, slots=True)
class Outcome:
    """Sum, with the reminder that said it was complete.

    Args:
        value: the sum.
        nudge: text of the reminder.
        closed: number of todos that were closed.
    """

    value: int
    nudge: str
    closed: int


async def agent_handler(
    payload: Plan | ResultPayload | TodoRegistered, metadata: HandlerMetadata
) -> HandlerResponse | list[HandlerResponse] | None:
    """Register a todo and send the call; on the answer, close the reported todos and respond."""
    closed = 0
    if metadata.todo_nudge:
        todo_registry = get_todo_registry()
        raised = todo_registry.get_raised_for(metadata.thread_id, metadata.own_name)
        for watcher in raised:
            closed += todo_registry.close(watcher.watcher_id)
    match payload:
        case Plan():
            return [
                HandlerResponse(TodoUntil("ResultPayload", from_listener="calculator.add"), to="system.todo"),
                HandlerResponse(AddPayload(payload.a, payload.b), to="calculator.add"),
            ]
        case ResultPayload():
            return HandlerResponse.respond(Outcome(payload.value, metadata.todo_nudge, closed))
        case TodoRegistered():
            return None
