"""The exchange of an agent with its model: as a prompt, and cut to the room that there is.

Owns which lines belong together. Providers refuse the result of a call without the call and a call without its result,
so that both stay or go at once. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from agentserver.completion import PromptMessage, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.llm.agent.state import AgentLine

T = TypeVar("T")

NO_ANSWER = "No answer came."


def prompt_of(lines: Sequence[AgentLine], request: str, summary: str = "") -> tuple[PromptMessage, ...]:
    """The lines as messages of a prompt.

    Args:
        lines: in order. Results stand right behind their calls, whatever came between; a call whose result is not there
            gets one that says so, and a result whose call is not there is left out.
        request: what the caller wants; said first where the line that says it was cut.
        summary: of what was cut.
    """
    messages = [message for unit in units(lines) for message in _told(unit)]
    begins = request.partition(" [cut: ")[0]
    if not any(message.role == "user" and message.content.startswith(begins) for message in messages):
        messages = [PromptMessage("user", request), *messages]
    if summary:
        messages = [PromptMessage("user", f"Of what was said before, this is the sum:\n{summary}"), *messages]
    return tuple(messages)


def units(lines: Sequence[AgentLine]) -> list[list[AgentLine]]:
    """The lines by what belongs together: a request, or an answer of the model with the results of its calls."""
    found: list[list[AgentLine]] = []
    homes: dict[str, list[AgentLine]] = {}
    for line in lines:
        if line.role == "tool":
            if line.id in homes:
                homes.pop(line.id).append(line)
            continue
        unit = [line]
        found.append(unit)
        homes.update((call.id, unit) for call in line.calls)
    return found


def _told(unit: Sequence[AgentLine]) -> Iterator[PromptMessage]:
    first, *results = unit
    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in first.calls)
    text = first.text if first.text or calls else "(nothing)"
    yield PromptMessage(first.role, text, calls)
    given = {result.id: result.text for result in results}
    for call in calls:
        yield PromptMessage("tool", given.get(call.id, NO_ANSWER), id=call.id, name=call.name)


def kept(lines: Sequence[AgentLine], room: int, size: Callable[[AgentLine], int]) -> int:
    """The number of the last lines that are kept, so that no more than ``room`` is taken and no unit is torn.

    The last unit is kept in any case: it is what the model is to go on with.
    """
    found = units(lines)
    held = {id(line) for line in found[-1]} if found else set()
    taken = sum(map(size, found[-1])) if found else 0
    for unit in reversed(found[:-1]):
        taken += sum(map(size, unit))
        if taken > room:
            break
        held.update(map(id, unit))
    first = next((at for at, line in enumerate(lines) if id(line) in held), len(lines))
    return len(lines) - first
