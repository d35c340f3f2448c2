"""Recorded conversations decided once more.

Owns the comparison of what was decided then with what these rules decide now. No handler runs. Refuses to know
where a record is kept.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core import recording
from agentserver.core.audit import Event

if TYPE_CHECKING:
    from agentserver.core.audit import Record
    from agentserver.core.guard import Rules
    from agentserver.core.outcome import Outcome
    from agentserver.engines.journal_reader import KeptStep, Story


class Difference(NamedTuple):
    """A step that would be decided otherwise.

    Args:
        version: of the conversation after it.
        then: what was decided, where the two part.
        now: what would be.
    """

    version: int
    then: str
    now: str


def replay(story: Story, rules: Rules) -> Difference | None:
    """The first step that differs; None when every step is decided as it was.

    After a difference the two conversations are no longer the same, so nothing is said about later steps. What is
    compared: every message that was sent, where to, on which thread; every refusal and its code; what left and what
    came to rest. What a record says for operators only may differ. Raises UnreadableError.
    """
    conversation = story.beginning.conversation()
    for step in story.steps:
        try:
            outcome = recording.decide(conversation, story.cause(step, rules), rules, step.moment)
        except LookupError as error:
            return Difference(step.version, "a decision", f"cannot be taken: {error}")
        difference = _difference(story, step, outcome)
        if difference is not None:
            return difference
        conversation = outcome.conversation
    return None


def _difference(story: Story, step: KeptStep, outcome: Outcome) -> Difference | None:
    for then, now in zip_longest(map(_essence, story.records_of(step)), map(_essence, outcome.records)):
        if then != now:
            return Difference(step.version, _told(then), _told(now))
    if tuple(outcome.replies) != step.events:
        return Difference(step.version, "what left the conversation", "something else")
    if outcome.conversation.version != step.version:
        return Difference(step.version, f"step {step.version}", f"step {outcome.conversation.version}")
    return None


def _essence(record: Record) -> Record:
    return record._replace(detail="", code=str(record.code), event=Event(record.event))


def _told(record: Record | None) -> str:
    if record is None:
        return "nothing more"
    parts = [
        record.event,
        record.sender,
        "->" if record.sender else "",
        record.to or "?",
        record.root,
        record.code,
    ]
    text = " ".join(part for part in map(str, parts) if part)
    return f"{text} ({len(record.message)} bytes)" if record.message else text
