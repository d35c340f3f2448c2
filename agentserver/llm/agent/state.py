"""The state of an agent on its thread: its present turn, and the history of the exchange with its model."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

from annotated_types import Ge

from agentserver.completion import PromptMessage, ToolCall
from agentserver.payload.xmlify import xmlify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NAMESPACE: Final = "urn:agentserver-agent"

_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call of the model.

    Args:
        id: referenced by its result.
        name: of the tool.
        arguments: JSON text.
    """

    id: str
    name: str
    arguments: str


@xmlify(namespace=NAMESPACE)
@dataclass(frozen=True, slots=True)
class AgentLine:
    """One message of the exchange with the model.

    Args:
        role: of the speaker.
        text: its text.
        calls: of the assistant.
        id: of a result, the id of the call.
        name: of a result, the tool.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: list[CallLine] = dataclasses.field(default_factory=list)
    id: str = ""
    name: str = ""


@xmlify(namespace=NAMESPACE)
@dataclass(frozen=True, slots=True)
class AgentState:
    """The present turn of an agent.

    Args:
        request: the request of its caller, as rendered for the model.
        key: of the invocation whose calls are open.
        calls: these calls, by their place; without arguments.
        waiting: how many have no answer yet.
        turns: completions for this request.
        repairs: of these, those that correct an answer.
        due: whether to ask the model again when ``system.todo`` answers.
        failing: the kind of failure with which the next delivery ends; empty without one.
        why: the reason of that failure: the backends that were asked, and their statuses.
        summary: of the history that did not fit.
    """

    request: str = ""
    key: str = ""
    calls: list[CallLine] = dataclasses.field(default_factory=list)
    waiting: Annotated[int, Ge(0)] = 0
    turns: Annotated[int, Ge(0)] = 0
    repairs: Annotated[int, Ge(0)] = 0
    due: bool = False
    failing: str = ""
    why: str = ""
    summary: str = ""


KEPT: Final = (AgentLine, AgentState)
"""The payload classes that such agents add to an organism."""


def writable(text: str, limit: int) -> str:
    """Cut a text to the characters that XML can hold and to a length in markup, and mark the cut."""
    text = _UNWRITABLE.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")
    room = limit
    for at, sign in enumerate(text):
        room -= _COSTS.get(sign, 1 if sign < "\x80" else len(sign.encode()))
        if room < 0:
            return f"{text[:at]} [cut: {len(text) - at} characters more]"
    return text


_COSTS: Final = MappingProxyType({"&": 5, "<": 4, ">": 4})
"""Characters of markup that a character takes, where it is not one."""

T = TypeVar("T")

NO_ANSWER = "No answer came."


def prompt_of(lines: Sequence[AgentLine], request: str, summary: str = "") -> tuple[PromptMessage, ...]:
    """Build the messages of a prompt from lines.

    Args:
        lines: in order. Each result follows its call; a missing result is replaced by a note, and a result without its
            call is dropped.
        request: of the caller; repeated first if its own line was cut.
        summary: of the lines that were cut.
    """
    messages = [message for unit in units(lines) for message in _to_message(unit)]
    begins = request.partition(" [cut: ")[0]
    if not any(message.role == "user" and message.content.startswith(begins) for message in messages):
        messages = [PromptMessage("user", request), *messages]
    if summary:
        messages = [PromptMessage("user", f"Summary of the earlier exchange:\n{summary}"), *messages]
    return tuple(messages)


def units(lines: Sequence[AgentLine]) -> list[list[AgentLine]]:
    """Group the lines that belong together: a request, or an answer with the results of its calls."""
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


def _to_message(unit: Sequence[AgentLine]) -> Iterator[PromptMessage]:
    first, *results = unit
    calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in first.calls)
    text = first.text if first.text or calls else "(nothing)"
    yield PromptMessage(first.role, text, calls)
    given = {result.id: result.text for result in results}
    for call in calls:
        yield PromptMessage("tool", given.get(call.id, NO_ANSWER), id=call.id, name=call.name)


def count_kept(lines: Sequence[AgentLine], room: int, size: Callable[[AgentLine], int]) -> int:
    """Count the last lines that fit into ``room`` without splitting a unit.

    The last unit always counts: the model continues from it.
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
