"""The memory of an agent on its thread: the exchange with its model, a line at a time, and its present turn.

Owns the payload classes in which both are stored. Refuses to know what follows from them.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal

from annotated_types import Ge

from agentserver.payload.xmlify import xmlify

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
