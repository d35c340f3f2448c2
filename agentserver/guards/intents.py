"""Turns handoffs into tasks in the wording of the organism, or refuses them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lxml import etree

from agentserver.contract import Code
from agentserver.core.drafts import replies
from agentserver.core.encoding.codecs import attempt_members
from agentserver.core.guard import Denial, Rewrite
from agentserver.core.handoffs import Handoff, Param, Task, Words
from agentserver.core.messages import Draft
from agentserver.core.records.details import Ground, HandoffAttempt
from agentserver.handoff import audit
from agentserver.handoff.judgement import ApprovedRequest, JudgementContext, judge
from agentserver.handoff.parameters import WrittenValue
from agentserver.handoff.requests import HandoffRequest, RequestRefusal, digest
from agentserver.handoff.scrub import Scrub

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.core.drafts.routing import Sender
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.refusals import Refusal
    from agentserver.handoff.audit import AuditSink
    from agentserver.handoff.intents import Vocabulary
    from agentserver.handoff.judgement import Verdict
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds

_UNREACHABLE: Final = frozenset({RequestRefusal.TARGET_NOT_ALLOWLISTED, RequestRefusal.NOT_A_PEER})
"""Refusals that reveal to a sender only that no listener of that name is within its reach."""

_new = tuple.__new__
"""Makes a tuple without the overhead of its class's Python constructor."""


class IntentRewriter:
    """Rewriter of handoffs, and of payloads that are bound to intents, into tasks.

    Args:
        vocabulary: the intents that may be requested.
        bound: the intent of each payload that is bound to one, by its root element and target.
        codecs: the server's codecs, including those of Handoff and Task.
        bounds: the bounds of a message.
        scrub: whether to remove instruction-like lines from a sender's words.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        bound: Mapping[str, Mapping[str, str]],
        codecs: Codecs,
        bounds: Bounds,
        scrub: Scrub = Scrub.ON,
    ) -> None:
        self._vocabulary = vocabulary
        self._bound = bound
        self._codecs = codecs
        self._bounds = bounds
        self._scrub = scrub
        self._handoff = codecs.of(Handoff)
        self._task = codecs.of(Task)
        self.roots = frozenset((self._handoff.name, self._task.name, *bound))

    def rewrite(self, draft: Draft, sender: Sender) -> Rewrite | None:
        """Turn a handoff into a task, or refuse it; None for a message that is no handoff."""
        request = self._read_request(draft, sender)
        if request is None:
            return None
        at = datetime.fromtimestamp(sender.at, UTC)
        verdict, note = self._judge(request, sender, at)
        if not isinstance(verdict, ApprovedRequest):
            return Rewrite(_deny(verdict.reason), note)
        return _new(Rewrite, (self._write_task(verdict, at), note, verdict.allow_peers))

    def describe_refusal(self, refusal: Refusal, sender: Sender) -> HandoffAttempt | None:
        """Describe a handoff, or a bound payload, that its schema refused, for the record."""
        if refusal.root != self._handoff.name and refusal.root not in self._bound:
            return None
        request = HandoffRequest(
            refusal.to or None,
            fault=RequestRefusal.SCHEMA,
            raw_len=len(refusal.payload_text),
            raw_sha256=digest(refusal.payload_text),
        )
        return self._judge(request, sender, datetime.fromtimestamp(sender.at, UTC))[1]

    def _judge(self, request: HandoffRequest, sender: Sender, at: datetime) -> tuple[Verdict, HandoffAttempt]:
        """Judge a request, and describe it for the record."""
        moment = at.isoformat(timespec="milliseconds")
        parts = sender.listener.name, moment, _find_reach(sender), self._scrub
        verdict = judge(self._vocabulary, request, _new(JudgementContext, parts))
        values = audit.list_values(verdict, moment)
        if isinstance(verdict, ApprovedRequest):  # all of its names are known
            return verdict, _new(HandoffAttempt, (*values[:6], tuple(values[6]), *values[7:]))
        return verdict, HandoffAttempt.of(values)

    def _read_request(self, draft: Draft, sender: Sender) -> HandoffRequest | None:
        root = draft.root
        if root == self._handoff.name:
            return self._read_handoff(draft)
        if root == self._task.name:
            # A listener may send itself any task: that does not extend its reach.
            own = draft.to == sender.listener.name
            return (
                None
                if own
                else _make_request(draft, _find_target_name(draft.to), fault=RequestRefusal.FORGED_TASK)
            )
        bound = self._bound.get(root)
        target = None if bound is None else _find_target(tuple(bound), draft, sender)
        if bound is None or target is None:
            return None
        return _make_request(draft, target, bound[target], tuple(_list_values(draft.element)))

    def _read_handoff(self, draft: Draft) -> HandoffRequest:
        """Read the request of a Handoff. Two targets, or a parameter given twice, are a schema fault."""
        handoff = self._handoff.decode(draft.element)
        assert isinstance(handoff, Handoff)
        target = handoff.target if draft.to is None else _find_target_name(draft.to)
        params: list[tuple[str, object]] = [
            (param.name, _new(WrittenValue, (param.value,))) for param in handoff.params
        ]
        if handoff.note is not None:
            note = _new(WrittenValue, (handoff.note,))
            params.append((self._note_name(handoff.intent), note))
        fault = None
        if len(dict(params)) < len(params) or handoff.target not in {None, target}:
            fault = RequestRefusal.SCHEMA
        elif not handoff.intent:
            fault = RequestRefusal.LEGACY_PAYLOAD if handoff.event and not params else RequestRefusal.SCHEMA
        request = (target, handoff.intent or None, tuple(params), handoff.event or "", fault)
        return _new(HandoffRequest, (*request, len(draft.markup), digest(draft.markup), handoff.note or ""))

    def _note_name(self, intent: str) -> str:
        """Look up the parameter in which an intent takes free text; empty if it takes none."""
        checked = self._vocabulary.intents.get(intent)
        return "" if checked is None else checked.intent.note

    def _write_task(self, approved: ApprovedRequest, at: datetime) -> Draft | Denial:
        """Encode the task and validate it against its schema, like every other message."""
        task = Task(
            approved.intent,
            approved.steering,
            tuple([Param(name, value) for name, value in approved.params]),
            tuple([Words(frame.source, at, frame.text) for frame in approved.data]),
        )
        found = replies.encode_draft(task, approved.target, self._codecs, self._bounds)
        return (
            found if isinstance(found, Draft) else Denial(Code.DENIED, found.detail or Ground.HANDOFF.of(""))
        )


def _deny(reason: RequestRefusal) -> Denial:
    return Denial(Code.ROUTING if reason in _UNREACHABLE else Code.DENIED, Ground.HANDOFF.of(reason))


def _find_target_name(to: object) -> str | None:
    """Return the listener that a message is addressed to; empty for the caller."""
    return None if to is None else to if isinstance(to, str) else ""


def _find_target(targets: tuple[str, ...], draft: Draft, sender: Sender) -> str | None:
    """Find the target for which a bound payload is work; None for an answer and for other receivers."""
    if draft.to is None:
        return targets[0] if len(targets) == 1 else None
    return (
        draft.to if isinstance(draft.to, str) and draft.to in targets and draft.to != sender.caller else None
    )


def _find_reach(sender: Sender) -> frozenset[str]:
    """List the listeners that the sender may ask: its peers and itself. Its caller gets answers, on an open thread."""
    peers = sender.listener.peers | {sender.listener.name}
    return peers if sender.caller == sender.listener.name else peers - {sender.caller}


def _make_request(
    draft: Draft,
    target: str | None,
    intent: str | None = None,
    params: tuple[tuple[str, object], ...] = (),
    event: str = "",
    fault: RequestRefusal | None = None,
) -> HandoffRequest:
    return HandoffRequest(target, intent, params, event, fault, len(draft.markup), digest(draft.markup))


def _list_values(element: etree._Element) -> list[tuple[str, object]]:
    """List the fields of a payload as written."""
    children = [(etree.QName(child).localname, WrittenValue(child.text or "")) for child in element]
    return [*children, *((str(name), WrittenValue(str(value))) for name, value in element.attrib.items())]


class HandoffRecord:
    """Sink that appends every attempted handoff to the audit record.

    Args:
        sink: the destination of the lines. It neither blocks nor raises.
    """

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def __call__(self, records: Iterable[AuditRecord]) -> None:
        """Append the attempts of one step."""
        for record in records:
            if isinstance(record.detail, HandoffAttempt):
                members = {**attempt_members(record.detail), "conversation": record.conversation}
                self._sink.append(audit.HandoffEntry(tuple(members.items())))
