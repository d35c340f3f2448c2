"""The calls of one answer of a model: which can be sent, which go back to it, and which is the answer.

Owns that judgement and the words in which the model is told of it. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentserver.llm.typed import value_from
from agentserver.payload.json.values import JsonRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.completion import ToolCall
    from agentserver.payload.codec import Codec

ALONE = "Not taken: answer alone, when you have the results of your calls."
GIVEN = "This was your answer."


@dataclass(frozen=True, slots=True)
class Sent:
    """A call that can be made: its message and whom it is for."""

    call: ToolCall
    listener: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Judged:
    """The calls of one answer of a model.

    Args:
        sent: those that can be made, in order.
        faults: those that cannot, with what the model is told.
        answer: the value of its answer, with its call; None without one.
    """

    sent: tuple[Sent, ...]
    faults: tuple[tuple[ToolCall, str], ...]
    answer: Sent | None


def judge(calls: Iterable[ToolCall], tools: Mapping[str, tuple[str, Codec]], answers: str) -> Judged:
    """Judge the calls of an answer. ``tools`` has listener and codec by name; the answer's listener is empty.

    Calls of tools go before an answer that comes with them: it was written without their results.
    """
    sent: list[Sent] = []
    faults: list[tuple[ToolCall, str]] = []
    given: list[Sent] = []
    for call in calls:
        read = _read(call, tools)
        if isinstance(read, str):
            faults.append((call, read))
        elif call.name == answers:
            given.append(read)
        else:
            sent.append(read)
    alone = bool(given) and not sent and not faults
    faults += [(one.call, ALONE) for one in given[alone:]]
    return Judged(tuple(sent), tuple(faults), given[0] if alone else None)


def _read(call: ToolCall, tools: Mapping[str, tuple[str, Codec]]) -> Sent | str:
    """The message that a call means; or what to tell the model."""
    found = tools.get(call.name)
    if found is None:
        return f"There is no such tool. The tools are: {', '.join(tools)}."
    listener, codec = found
    value = value_from(codec, call.arguments or "{}")
    if isinstance(value, JsonRefusal):
        return f"Not made: the arguments are not valid. Correct them.\n{value}"
    return Sent(call, listener, value)
