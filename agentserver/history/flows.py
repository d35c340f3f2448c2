"""Flows and waiting messages of recorded conversations: which an organism could not continue, and where they sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import anyio

from agentserver.core.decide.intake import read_own
from agentserver.core.encoding.codecs import UnreadableError
from agentserver.core.encoding.decision_codec import StoredInvocation, StoredReturn, read_cause
from agentserver.core.messages import TIMER
from agentserver.core.state.effects import ThreadStorage
from agentserver.flow.errors import FlowError
from agentserver.flow.lines import KEPT, FlowEvent, FlowLine
from agentserver.payload.codec import Codecs
from agentserver.payload.names import local
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.core.encoding.history import RecordedConversation, RecordedStep
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery
    from agentserver.core.state.threads import Thread
    from agentserver.flow.handler import FlowHandler
    from agentserver.payload.codec import Codec
    from agentserver.ports import EngineReader


class PendingBreak(NamedTuple):
    """Waiting message or flow that the organism could not continue.

    Args:
        conversation: its id.
        listener: that has it; empty if the whole conversation cannot be read.
        reason: what breaks.
    """

    conversation: str
    listener: str
    reason: str


def find_breaks(
    reader: EngineReader, rules: Rules, flows: Mapping[str, FlowHandler]
) -> Iterator[PendingBreak]:
    """Find what waits in open conversations and breaks. The code of waiting flows runs against their records.

    Args:
        reader: of the journal, opened with the guards of the rules.
        rules: of the organism.
        flows: its flows, by the names of their listeners.
    """
    for summary in reader.conversations():
        if summary.closed is not None:
            continue
        try:
            conversation = reader.load(summary.id)
        except UnreadableError as error:
            yield PendingBreak(summary.id, "", str(error))
            continue
        for thread in () if conversation is None else conversation.tree.nodes.values():
            for reason in (*_find_in_messages(thread, rules), *_find_in_values(thread, rules)):
                yield PendingBreak(summary.id, thread.owner, reason)
            reason = _rehearse(thread, rules, flows.get(thread.owner))
            if reason:
                yield PendingBreak(summary.id, thread.owner, reason)


def _find_in_messages(thread: Thread, rules: Rules) -> Iterator[str]:
    queued = thread.list_waiting()
    if queued and thread.owner not in rules.blueprint.listeners:
        yield f"{len(queued)} messages wait for it, and it is no listener any longer"
        return
    yield from filter(None, (_judge_message(delivery, rules) for delivery in queued))


def _judge_message(delivery: Delivery, rules: Rules) -> str:
    codec, name = rules.codecs.for_root(delivery.root), local(delivery.root)
    if codec is None:
        return f"a {name} waits for it, and no payload class has this root element"
    if read_own(delivery, codec, rules.bounds) is None:
        return f"a {name} waits for it that does not satisfy its present schema"
    return ""


def _find_in_values(thread: Thread, rules: Rules) -> Iterator[str]:
    for name, data in thread.storage.items():
        codec = rules.codecs.for_root(name)
        if codec is None:
            yield f"it stores a {local(name)}, which no payload class reads"
            continue
        element = envelope.read_payload(data, rules.bounds)
        if isinstance(element, envelope.Malformed) or not codec.valid(element):
            yield f"it stores a {local(name)} that does not satisfy its present schema"


def _rehearse(thread: Thread, rules: Rules, flow: FlowHandler | None) -> str:
    """Run a waiting flow against its record. Returns why it cannot continue, or an empty text."""
    name = rules.codecs.of(FlowLine).name
    if name not in thread.logs:
        return ""
    if flow is None:
        return "a flow waits here, and its handler is no flow any longer"
    lines = ThreadStorage({}, rules.codecs, rules.bounds, 0, thread.logs).log(FlowLine)
    try:
        anyio.run(flow.bind(rules.codecs).rerun, lines)
    except FlowError as error:
        return f"a waiting flow breaks: {error}"
    return ""


def find_flow_lines(recorded: RecordedConversation) -> Mapping[str, int]:
    """Map the deliveries that flows sent to the lines of their source. Raises UnreadableError."""
    codec = Codecs(KEPT).of(FlowLine)
    found: dict[str, int] = {}
    for step in recorded.steps:
        deliveries = [*step.added]
        for event in (one for entry in _iter_entries(step, codec.name) for one in _list_sent(codec, entry)):
            delivery = next((one for one in deliveries if event.name == _find_peer(one)), None)
            if delivery is not None:
                deliveries.remove(delivery)
                found[delivery.id] = event.line
    return found


def _find_peer(delivery: Delivery) -> str:
    """Return the receiver of a message, or the timer service for a timer of a thread itself."""
    return TIMER if delivery.sender == TIMER else delivery.to


def _list_sent(codec: Codec, entry: bytes) -> list[FlowEvent]:
    """List the messages in an entry of the log."""
    read = envelope.read_payload(entry)
    line = None if isinstance(read, envelope.Malformed) else codec.decode(read)
    return [each for each in line.events if each.line] if isinstance(line, FlowLine) else []


def _iter_entries(step: RecordedStep, kind: str) -> Iterator[bytes]:
    """Yield what a step added to the log of a flow."""
    try:
        cause = read_cause(step.cause)
    except UnreadableError:  # of a damaged step, whose lines are unknown
        return
    if isinstance(cause, StoredInvocation) and isinstance(cause.result, StoredReturn):
        for change in cause.result.effects.logged:
            if change.kind == kind:
                yield from change.appended
