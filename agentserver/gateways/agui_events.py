"""The events of one AG-UI run about messages, calls, steps and state. Needs the extra ``agui``.

They hold the protocol's order: each message, call and step that begins also ends, before the run does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    MessagesSnapshotEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from agentserver.core.messages import DeltaKind
from agentserver.core.records.audit import Event

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ag_ui.core import BaseEvent

    from agentserver.core.messages import Delta
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.conversation import Conversation

RESET: Final = "agentserver:reset"
"""The name of the event that a streamed message does not count. A snapshot of the messages without it follows."""

STATE: Final = "agentserver"
"""The member of the front end's state that has the conversation, the request and its status."""

ANSWERED: Final = "answered"

_OVER: Final = frozenset({Event.HANDLED, Event.FAILED, Event.DROPPED, Event.DISCARDED})


def describe_message(
    key: str, sender: str, text: str, metadata: dict[str, Any] | None = None
) -> Sequence[BaseEvent]:
    """Build the events of a whole message."""
    return (
        TextMessageStartEvent(message_id=key, role="assistant", name=sender, metadata=metadata),
        TextMessageContentEvent(message_id=key, delta=text),
        TextMessageEndEvent(message_id=key),
    )


@dataclass
class RunMessages:
    """Messages of a run: whole ones, and one that is streamed.

    Args:
        request: the server's id of the request.
        earlier: the messages of the front end's input.
        known: their ids.
    """

    request: str
    earlier: Sequence[Any]
    known: Collection[str]
    _messages: list[AssistantMessage] = field(default_factory=list)
    _replies: int = 0
    _key: str = ""
    _text: str = ""

    def add(
        self, key: str, sender: str, text: str, metadata: dict[str, Any] | None = None
    ) -> Sequence[BaseEvent]:
        """Add a whole message, unless the front end has it."""
        if key in self.known:
            return ()
        self._messages.append(AssistantMessage(id=key, name=sender, content=text))
        return describe_message(key, sender, text, metadata)

    def add_piece(self, delta: Delta) -> Sequence[BaseEvent]:
        """Add a piece of a message. After a gap, the rest comes with the reply."""
        begins, key = not self._key, f"{self.request}-{self._replies + 1}"
        if delta.offset != len(self._text) or key in self.known:
            return ()
        self._key, self._text = key, self._text + delta.text
        piece = TextMessageContentEvent(message_id=key, delta=delta.text)
        return (
            [TextMessageStartEvent(message_id=key, role="assistant", name=delta.sender), piece]
            if begins
            else [piece]
        )

    def add_reply(self, sender: str, text: str) -> Sequence[BaseEvent]:
        """Add a reply: whole, or the rest of the streamed message. Its id is the same in every run of the request."""
        before = [] if text.startswith(self._text) else self.reset("the answer differs")
        self._replies += 1
        key = f"{self.request}-{self._replies}"
        if not self._key:
            return [*before, *self.add(key, sender, text)]
        rest, self._key, self._text = text[len(self._text) :], "", ""
        self._messages.append(AssistantMessage(id=key, name=sender, content=text))
        content = [TextMessageContentEvent(message_id=key, delta=rest)] if rest else []
        return [*content, TextMessageEndEvent(message_id=key)]

    def reset(self, reason: str) -> list[BaseEvent]:
        """Take back the streamed message, if there is one."""
        if not self._key:
            return []
        key, self._key, self._text = self._key, "", ""
        return [
            TextMessageEndEvent(message_id=key),
            CustomEvent(name=RESET, value={"messageId": key, "reason": reason}),
            MessagesSnapshotEvent(messages=[*self.earlier, *self._messages]),
        ]


@dataclass
class RunSteps:
    """Steps of a run: each delivery to a listener of the organism, until it is handled.

    Args:
        listeners: their names.
        request: the server's id of the request.
    """

    listeners: Collection[str]
    request: str
    _running: dict[str, str] = field(default_factory=dict)

    def begin(self, conversation: Conversation | None) -> list[BaseEvent]:
        """Begin with the deliveries that wait or run now."""
        nodes = () if conversation is None else conversation.tree.nodes.values()
        waiting = [one for node in nodes for one in node.inbox if one.request == self.request]
        return [event for one in waiting for event in self._start(one.id, one.to)]

    def follow(self, record: AuditRecord) -> list[BaseEvent]:
        """Follow a committed record of the request."""
        if record.event is Event.SENT:
            return self._start(record.delivery, record.to)
        name = self._running.pop(record.delivery, None) if record.event in _OVER else None
        return [] if name is None else [StepFinishedEvent(step_name=name)]

    def _start(self, delivery: str, to: str) -> list[BaseEvent]:
        if delivery in self._running or to not in self.listeners:
            return []
        taken = set(self._running.values())
        name = next(each for n in count(1) if (each := to if n == 1 else f"{to} ({n})") not in taken)
        self._running[delivery] = name
        return [StepStartedEvent(step_name=name)]

    def end(self) -> list[BaseEvent]:
        """End all steps."""
        names, self._running = tuple(self._running.values()), {}
        return [StepFinishedEvent(step_name=name) for name in names]


@dataclass
class RunCalls:
    """Calls of tools in a run, by their ids. Their arguments and results stay on the server."""

    _open: set[str] = field(default_factory=set)

    def follow(self, delta: Delta) -> list[BaseEvent]:
        """Follow a call, or its end."""
        if delta.kind is DeltaKind.CALL and delta.id not in self._open:
            self._open.add(delta.id)
            return [
                ToolCallStartEvent(tool_call_id=delta.id, tool_call_name=delta.name),
                ToolCallArgsEvent(tool_call_id=delta.id, delta="{}"),
                ToolCallEndEvent(tool_call_id=delta.id),
            ]
        if delta.kind is DeltaKind.RESULT and delta.id in self._open:
            self._open.discard(delta.id)
            return [_end_call(delta.id, delta.text or ANSWERED)]
        return []

    def end(self) -> list[BaseEvent]:
        """End all calls: the run does not wait for them."""
        ids, self._open = sorted(self._open), set()
        return [_end_call(each, "unanswered") for each in ids]


def _end_call(key: str, result: str) -> BaseEvent:
    return ToolCallResultEvent(message_id=f"{key}-result", tool_call_id=key, content=result, role="tool")


def describe_start(state: object, conversation: str, request: str) -> BaseEvent:
    """Build the snapshot of the state at the start: the front end's own, and the conversation's id."""
    own = state if isinstance(state, dict) else {}
    found = {"conversation": conversation, "request": request, "status": "running"}
    return StateSnapshotEvent(snapshot={**own, STATE: found})


def describe_status(status: str) -> BaseEvent:
    """Build the change of the status in the state."""
    change: Any = {"op": "replace", "path": f"/{STATE}/status", "value": status}
    return StateDeltaEvent(delta=[change])
