"""The memory of an agent on its thread: the exchange with its model, a line at a time, and its present turn.

Owns the payload classes in which both are stored. Refuses to know what follows from them.
"""

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
    """A call that the model wants to have made.

    Args:
        id: by which its result is told.
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
        role: of who says it.
        text: what is said.
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
        request: what its caller wants, as the model was told it.
        key: of the invocation whose calls are waited for.
        calls: these calls, by their place; without arguments.
        waiting: how many are not answered.
        turns: calls of the model for this request.
        repairs: of these, those that mend.
        due: whether the model is to be asked once more when ``system.todo`` answers.
        failing: the kind of failure with which the next delivery ends; empty for none.
        why: the reason of that failure: the backends that were asked, and their statuses.
        summary: of what the history has no room for.
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
"""The payload classes that an organism with such agents has beside its own."""


def writable(text: str, limit: int) -> str:
    """A text as XML can hold it, of at most so many characters of markup; the rest is cut, and said so."""
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
