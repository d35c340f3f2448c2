"""Intents: work reaches its target in the words of the organism, or not at all."""

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
from agentserver.handoff.judgement import ApprovedRequest, Circumstances, judge
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
"""Refusals that tell a sender no more than that no listener of that name is within its reach."""

_new = tuple.__new__
"""Makes a tuple without the call of Python that its class would make."""


class IntentRewriter:
    """Turns handoffs, and the payloads that are bound to intents, into tasks.

    Args:
        vocabulary: what may be asked.
        bound: intents that have a payload of their own: by its root element and the target, the intent.
        codecs: of the server; those of Handoff and Task are among them.
        bounds: of a message.
        scrub: whether instruction-like lines are taken out of a sender's words.
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
        """Turn a handoff into a task, or refuse it; None for a message that hands nothing over."""
        request = self._request(draft, sender)
        if request is None:
            return None
        at = datetime.fromtimestamp(sender.at, UTC)
        verdict, note = self._judged(request, sender, at)
        if not isinstance(verdict, ApprovedRequest):
            return Rewrite(_denied(verdict.reason), note)
        return Rewrite(self._written(verdict, at), note, verdict.allow_peers)

    def refused(self, refusal: Refusal, sender: Sender) -> HandoffAttempt | None:
        """The record of a handoff, or of a payload that means one, that its schema refused."""
        if refusal.root != self._handoff.name and refusal.root not in self._bound:
            return None
        request = HandoffRequest(
            refusal.to or None,
            fault=RequestRefusal.SCHEMA,
            raw_len=len(refusal.said),
            raw_sha256=digest(refusal.said),
        )
        return self._judged(request, sender, datetime.fromtimestamp(sender.at, UTC))[1]

    def _judged(
        self, request: HandoffRequest, sender: Sender, at: datetime
    ) -> tuple[Verdict, HandoffAttempt]:
        """The verdict on a request, and its record."""
        shown = at.isoformat(timespec="milliseconds")
        around = Circumstances(sender.listener.name, shown, _reach(sender), self._scrub)
        verdict = judge(self._vocabulary, request, around)
        return verdict, HandoffAttempt.of(audit.values(verdict, shown))

    def _request(self, draft: Draft, sender: Sender) -> HandoffRequest | None:
        root = draft.root
        if root == self._handoff.name:
            return self._asked(draft)
        if root == self._task.name:
            # To itself a listener may say what it likes: it reaches no more by that than it does anyway.
            own = draft.to == sender.listener.name
            return None if own else _request(draft, _named(draft.to), fault=RequestRefusal.FORGED_TASK)
        bound = self._bound.get(root)
        target = None if bound is None else _target(tuple(bound), draft, sender)
        if bound is None or target is None:
            return None
        return _request(draft, target, bound[target], tuple(_values(draft.element)))

    def _asked(self, draft: Draft) -> HandoffRequest:
        """The request of a Handoff. One that names two targets, or a value twice, has no form."""
        handoff = self._handoff.decode(draft.element)
        assert isinstance(handoff, Handoff)
        target = handoff.target if draft.to is None else _named(draft.to)
        params: list[tuple[str, object]] = [
            (param.name, WrittenValue(param.value)) for param in handoff.params
        ]
        if handoff.note is not None:
            params.append((self._note(handoff.intent), WrittenValue(handoff.note)))
        fault = None
        if len(dict(params)) < len(params) or handoff.target not in {None, target}:
            fault = RequestRefusal.SCHEMA
        elif not handoff.intent:
            fault = RequestRefusal.LEGACY_PAYLOAD if handoff.event and not params else RequestRefusal.SCHEMA
        asked = (target, handoff.intent or None, tuple(params), handoff.event or "", fault)
        return _new(HandoffRequest, (*asked, len(draft.markup), digest(draft.markup), handoff.note or ""))

    def _note(self, intent: str) -> str:
        """The name under which an intent takes free text; empty, which no parameter is called, when it takes none."""
        checked = self._vocabulary.intents.get(intent)
        return "" if checked is None else checked.intent.note

    def _written(self, approved: ApprovedRequest, at: datetime) -> Draft | Denial:
        """The task, encoded and held against its schema like every other message."""
        task = Task(
            approved.intent,
            approved.steering,
            tuple([Param(name, value) for name, value in approved.params]),
            tuple([Words(frame.source, at, frame.text) for frame in approved.data]),
        )
        found = replies.draft(task, approved.target, self._codecs, self._bounds)
        return (
            found if isinstance(found, Draft) else Denial(Code.DENIED, found.detail or Ground.HANDOFF.of(""))
        )


def _denied(reason: RequestRefusal) -> Denial:
    return Denial(Code.ROUTING if reason in _UNREACHABLE else Code.DENIED, Ground.HANDOFF.of(reason))


def _named(to: object) -> str | None:
    """The listener that a message is addressed to; empty for the caller."""
    return None if to is None else to if isinstance(to, str) else ""


def _target(targets: tuple[str, ...], draft: Draft, sender: Sender) -> str | None:
    """The target for which a payload of its own is work; None for an answer and for everybody else."""
    if draft.to is None:
        return targets[0] if len(targets) == 1 else None
    return (
        draft.to if isinstance(draft.to, str) and draft.to in targets and draft.to != sender.caller else None
    )


def _reach(sender: Sender) -> frozenset[str]:
    """The listeners that the sender may ask: its peers and itself. Its caller gets answers, on an open thread."""
    peers = sender.listener.peers | {sender.listener.name}
    return peers if sender.caller == sender.listener.name else peers - {sender.caller}


def _request(
    draft: Draft,
    target: str | None,
    intent: str | None = None,
    params: tuple[tuple[str, object], ...] = (),
    event: str = "",
    fault: RequestRefusal | None = None,
) -> HandoffRequest:
    return HandoffRequest(target, intent, params, event, fault, len(draft.markup), digest(draft.markup))


def _values(element: etree._Element) -> list[tuple[str, object]]:
    """The fields of a payload, as they are written."""
    children = [(etree.QName(child).localname, WrittenValue(child.text or "")) for child in element]
    return [*children, *((str(name), WrittenValue(str(value))) for name, value in element.attrib.items())]


class HandoffRecord:
    """Sink of records that appends every attempted handoff to the audit record.

    Args:
        sink: where the lines go. It neither blocks nor raises.
    """

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink

    def __call__(self, records: Iterable[AuditRecord]) -> None:
        """Append the attempts of one step."""
        for record in records:
            if isinstance(record.detail, HandoffAttempt):
                told = {**attempt_members(record.detail), "conversation": record.conversation}
                self._sink.append(audit.HandoffEntry(tuple(told.items())))
