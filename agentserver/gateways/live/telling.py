"""Records and approvals as plain values for a page.

Owns what a page is told of them, and that it is what the console and the trace tell too: lines of styled segments, in
which all that a reader would not see stands escaped. Pure. Refuses to know who reads; what a viewer may not see was
taken out before (trace/redact.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import escape_unseen
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Charge, Grounds, GuardAsks, GuardQuestions
from agentserver.core.records.wording import WORDING
from agentserver.findings import PHRASES, Findings
from agentserver.gateways import approval_view
from agentserver.gateways.console.view import ASKS, MARGIN
from agentserver.payload.names import local
from agentserver.trace import text
from agentserver.trace.redact import redact_records
from agentserver.trace.terminal import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agentserver.core.messages import Question
    from agentserver.core.records.details import Detail
    from agentserver.core.state.approvals import Approval
    from agentserver.findings import FindingFacts, Origins
    from agentserver.payload.codec import Codecs
    from agentserver.trace.redact import Redaction
    from agentserver.trace.terminal import Line
    from agentserver.trace.text import TracedHop

NAME = 128
"""Characters of a name that a sender may have written."""

SAID = 2_000
"""Characters of a message in a list of many."""


def name(told: str) -> str:
    """A name as it is shown: visible, and of bounded length."""
    return escape_unseen(told[:NAME])


def lines(told: Iterable[Line], show: Callable[[str], str] = cut) -> list[list[list[str]]]:
    """Lines of styled segments, each as its style's name and its text."""
    return [[[style.name.lower(), show(part)] for style, part in line] for line in told]


def hop(record: AuditRecord) -> dict[str, Any]:
    """A record as a message on its way."""
    return {
        "event": str(record.event),
        "at": record.at,
        "conversation": record.conversation,
        "sender": name(record.sender),
        "to": name(record.to),
        "root": name(record.root),
        "code": record.code,
        "why": escape_unseen(WORDING.first(record.detail)[:SAID]),
    }


def row(one: TracedHop, *, whole: bool = False) -> dict[str, Any]:
    """A record in the tree of its conversation.

    Args:
        one: the record with its place.
        whole: whether the message is told whole.
    """
    record, detail = one.record, one.record.detail
    message = record.message.decode("utf-8", "backslashreplace")
    return {
        **hop(record),
        "depth": one.depth,
        "elapsed": one.elapsed,
        "took": one.took,
        "hop": record.hop,
        "delivery": record.delivery,
        "request": record.request,
        "more": [escape_unseen(each[:SAID]) for each in WORDING.lines(detail)[1:]],
        "cost": [detail.tokens, detail.money] if isinstance(detail, Charge) else None,
        "ways": ways(detail),
        "said": _said(one, whole=whole) if message else [],
        "cut": bool(message) and not whole and len(message) > SAID,
    }


def _said(one: TracedHop, *, whole: bool) -> list[str]:
    payload = text.payload(one.record.message)
    shown = payload if whole or len(payload) <= SAID else payload[:SAID]
    return [escape_unseen(each) for each in shown.replace("\t", "    ").split("\n")]


# Lineage


def ways(detail: Detail | None) -> list[dict[str, Any]]:
    """The ways of values that a detail tells of, each from its source to the sink."""
    match detail:
        case Findings():
            return [_way(detail, one) for one in detail.findings if one.trail is not None]
        case GuardQuestions():
            return [way for asked in detail.asked for way in ways(asked.why)]
        case _:
            return []


def _way(findings: Findings, one: FindingFacts) -> dict[str, Any]:
    trail = one.trail
    assert trail is not None
    passed = dict.fromkeys((each.listener, each.step) for each in trail.hops)
    return {
        "rule": PHRASES[f"rule {one.rule}"],
        "decision": findings.became or findings.decision,
        "blocked": (findings.became or findings.decision) == "deny",
        "excerpt": escape_unseen(trail.excerpt),
        "quoted": escape_unseen(trail.quoted),
        "via": trail.via,
        "source": {"listener": name(trail.source), "field": escape_unseen(trail.field), "step": trail.step},
        "hops": [{"listener": name(listener), "step": step} for listener, step in passed],
        "sink": {
            "listener": name(findings.sink),
            "field": escape_unseen(one.argument),
            "step": findings.step,
        },
    }


# Approvals


def asked(approval: Approval, principal: str) -> dict[str, Any]:
    """A message that waits, in a list."""
    delivery = approval.delivery
    return {
        "id": approval.id,
        "at": approval.at,
        "conversation": delivery.conversation,
        "principal": name(principal),
        "sender": name(delivery.sender),
        "to": name(delivery.to),
        "root": name(local(delivery.root)),
        "why": escape_unseen(WORDING.first(approval.questions[0].why)[:SAID]),
    }


def question(
    approval: Approval,
    codecs: Codecs,
    redaction: Redaction,
    origins: Origins | None = None,
    *,
    whole: bool = True,
) -> dict[str, Any]:
    """All that a person reads before answering; without the digest an answer is bound to.

    Args:
        approval: the message that waits.
        codecs: by which it is read.
        redaction: what its reader may not see.
        origins: of its values; None where nothing follows them.
        whole: False for who may read no contents.
    """
    seen = _redacted(approval, redaction)
    said = approval_view.said(seen, codecs, redaction.secrets)[:-1]
    return {
        "reasons": lines(map(_bare, approval_view.reasons(seen)), escape_unseen),
        "ways": [way for one in seen.questions for way in ways(one.why)],
        "said": lines(map(_bare, said), escape_unseen),
        "origins": lines(
            map(_bare, approval_view.traced(origins, redaction.secrets) if whole else ()), escape_unseen
        ),
        "always": [escape_unseen(each) for one in seen.questions for each in _covers(one, approval)]
        if whole
        else [],
    }


def _bare(line: Line) -> Line:
    """A line without the margin by which a terminal tells a message from its own words: a page frames it."""
    (style, margin), *rest = line
    return ((style, margin.removeprefix(MARGIN).removeprefix(ASKS)), *rest)


def _redacted(approval: Approval, redaction: Redaction) -> Approval:
    """The approval less what its reader may not see."""
    delivery = approval.delivery
    why = GuardQuestions(tuple(GuardAsks(one.guard, one.why) for one in approval.questions))
    record = AuditRecord(
        Event.ASKED, approval.at, delivery.conversation, delivery.thread, detail=why, message=delivery.message
    )
    (shown,) = redact_records([record], redaction)
    detail = shown.detail
    assert isinstance(detail, GuardQuestions)
    questions = tuple(
        one._replace(why=told.why) for one, told in zip(approval.questions, detail.asked, strict=True)
    )
    return approval._replace(delivery=delivery._replace(message=shown.message), questions=questions)


def _covers(one: Question, approval: Approval) -> Iterator[str]:
    """The cover of an answer for the rest of the conversation, of one question."""
    to = approval.delivery.to
    match one.why:
        case Findings():
            told = [each for each in one.why.findings if each.effect != "report"]
            for each in told:
                if each.argument:
                    yield f'"{each.value}" as {each.argument} of {to}'
                else:
                    yield f"this very call of {to}, for: {PHRASES[f'rule {each.rule}']}"
        case Grounds():
            yield f"the same content to {to}"
        case _:
            yield f"what the guard {one.guard} takes for the same"
