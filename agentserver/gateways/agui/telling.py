"""The events of a run, as AG-UI has them.

Owns their form, and the ids of messages, which are the same whenever the same reply is told. Pure.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ag_ui.core import (
    CustomEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from ag_ui.core.events import (
    RunFinishedCancelledOutcome,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
)

from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer
from agentserver.gateways.http import forms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ag_ui.core import BaseEvent

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Progress, Reply
    from agentserver.core.state.approvals import Approval
    from agentserver.gateways.agui.asked import RunAsked

VERSION: Final = "1.0"
"""Of the protocol that is spoken here."""

REFUSED: Final = "agentserver:refused-answer"
"""The name of the event that an answer to an interrupt counts for nothing."""

APPROVAL: Final = "agentserver:approval"
"""The reason of each interrupt."""

PROGRESS: Final = "agentserver:progress"


def started(asked: RunAsked) -> BaseEvent:
    """The run begins."""
    return RunStartedEvent(thread_id=asked.thread, run_id=asked.run, protocol_version=VERSION)


def finished(asked: RunAsked, result: Mapping[str, Any] | None) -> BaseEvent:
    """The run is over: its request has come to rest."""
    outcome = RunFinishedSuccessOutcome()
    return RunFinishedEvent(thread_id=asked.thread, run_id=asked.run, result=result, outcome=outcome)


def cancelled(asked: RunAsked) -> BaseEvent:
    """The run is over, because somebody has ended its conversation."""
    return RunFinishedEvent(thread_id=asked.thread, run_id=asked.run, outcome=RunFinishedCancelledOutcome())


def interrupted(asked: RunAsked, waiting: Sequence[Interrupt]) -> BaseEvent:
    """The run is over, and another goes on with it once these are answered."""
    outcome = RunFinishedInterruptOutcome(interrupts=list(waiting))
    return RunFinishedEvent(thread_id=asked.thread, run_id=asked.run, outcome=outcome)


def failed(message: str, code: str) -> BaseEvent:
    """The run is over: what was asked has failed, or cannot be followed."""
    return RunErrorEvent(message=message, code=code)


def refused(interrupt: str) -> BaseEvent:
    """An answer counts for nothing: nothing waits for it in this conversation, or something else than was shown."""
    return CustomEvent(name=REFUSED, value={"interruptId": interrupt})


def progress(said: Progress, number: int, run: str) -> Iterator[BaseEvent]:
    """A word of progress as a message of its own."""
    yield from _message(f"{run}-progress-{number}", said.sender, said.text, {PROGRESS: True})


def reply_id(reply: Reply, conversation: str) -> str:
    """The id of the message that a reply is."""
    return f"{conversation}-{forms.place_id(reply.place)}"


def reply(said: Reply, conversation: str, found: Mapping[str, Any]) -> Iterator[BaseEvent]:
    """A reply as a message; ``found`` is the object that it is."""
    yield from _message(reply_id(said, conversation), said.sender, _words(found), None)


def result(said: Reply, rules: Rules) -> Mapping[str, Any]:
    """A reply as the result of a run."""
    return {"from": said.sender, **forms.payload_json(said.message, rules)}


def interrupt(one: Approval, rules: Rules, *, decides: bool) -> Interrupt:
    """An approval as an interrupt. What is at stake is for those who may decide."""
    until = datetime.fromtimestamp(one.at + rules.blueprint.limits.approval, UTC)
    told = f"A message to {one.delivery.to} waits for an approval."
    if not decides:
        return Interrupt(id=one.id, reason=APPROVAL, message=told, expires_at=until.isoformat())
    why = [line for each in one.questions for line in WORDING.lines(each.why)]
    answers = {"type": "string", "enum": [str(each) for each in Answer]}
    return Interrupt(
        id=one.id,
        reason=APPROVAL,
        message="\n".join((told, *why)),
        expires_at=until.isoformat(),
        response_schema={
            "type": "object",
            "properties": {"answer": answers, "digest": {"const": one.digest}},
            "required": ["answer", "digest"],
            "additionalProperties": False,
        },
        metadata={
            "digest": one.digest,
            "from": one.delivery.sender,
            "to": one.delivery.to,
            **forms.cleaned(forms.payload_json(one.delivery.message, rules), rules.redact),
        },
    )


def _message(key: str, sender: str, text: str, more: dict[str, Any] | None) -> Iterator[BaseEvent]:
    yield TextMessageStartEvent(message_id=key, role="assistant", name=sender, metadata=more)
    yield TextMessageContentEvent(message_id=key, delta=text)
    yield TextMessageEndEvent(message_id=key)


def _words(found: Mapping[str, Any]) -> str:
    """The text that a payload is: its only field where that is a text, else all of it."""
    value = found.get("value")
    if not isinstance(value, dict):
        return str(found.get("xml", ""))
    texts = tuple(value.values())
    return (
        texts[0] if len(texts) == 1 and isinstance(texts[0], str) else json.dumps(value, ensure_ascii=False)
    )
