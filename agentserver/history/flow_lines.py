"""Lines of source at which flows sent their messages, read from a recorded conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.encoding.codecs import UnreadableError
from agentserver.core.encoding.decision_codec import KeptInvocation, KeptReturn, read_cause
from agentserver.flow.lines import KEPT, FlowEvent, FlowLine
from agentserver.payload.codec import Codecs
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.core.encoding.history import RecordedConversation, RecordedStep
    from agentserver.payload.codec import Codec


def find_flow_lines(recorded: RecordedConversation) -> Mapping[str, int]:
    """Map the deliveries that flows sent to the lines of their source. Raises UnreadableError."""
    codec = Codecs(KEPT).of(FlowLine)
    found: dict[str, int] = {}
    for step in recorded.steps:
        waiting = iter(step.added)
        for event in (one for entry in _entries(step, codec.name) for one in _sent(codec, entry)):
            delivery = next((one for one in waiting if one.to == event.name), None)
            if delivery is not None:
                found[delivery.id] = event.line
    return found


def _sent(codec: Codec, entry: bytes) -> list[FlowEvent]:
    """List the messages in an entry of the log."""
    read = envelope.read_payload(entry)
    line = None if isinstance(read, envelope.Malformed) else codec.decode(read)
    return [each for each in line.events if each.line] if isinstance(line, FlowLine) else []


def _entries(step: RecordedStep, kind: str) -> Iterator[bytes]:
    """Yield what a step added to the log of a flow."""
    try:
        cause = read_cause(step.cause)
    except UnreadableError:  # of a damaged step, whose lines are unknown
        return
    if isinstance(cause, KeptInvocation) and isinstance(cause.result, KeptReturn):
        for change in cause.result.effects.logged:
            if change.kind == kind:
                yield from change.appended
