"""Conversations driven on paper, as a journal would give them back."""

from __future__ import annotations

from agentserver.core.encoding import codecs, decision_codec
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.history import RecordedConversation, RecordedStep


def story_of(paper):
    """What a journal would hold of it."""
    steps = tuple(
        RecordedStep(
            outcome.conversation.version,
            outcome.moment,
            decision_codec.dump_cause(outcome),
            codecs.dump_records(outcome),
            outcome.added,
            tuple(outcome.replies),
            b"",
        )
        for outcome in paper.outcomes
    )
    one = paper.conversation
    deliveries = {delivery.id: delivery for step in steps for delivery in step.added}
    return RecordedConversation(Origin.from_conversation(one), steps, deliveries)
