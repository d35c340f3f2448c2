"""The data of the live view's pages: the organism, conversations, dead letters, approvals, decisions, usage.

Reads run where the engine reads, and change nothing.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import asdict
from html import unescape
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

import anyio

from agentserver.characters.printing import escape_unseen
from agentserver.contract import Code
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import (
    ApprovalGiven,
    Charge,
    FreeText,
    Grounds,
    GuardAsks,
    GuardQuestions,
    NoAnswer,
)
from agentserver.core.records.wording import WORDING
from agentserver.findings import PHRASES, Findings
from agentserver.gateways import approval_view
from agentserver.gateways.console.view import ASKS, MARGIN
from agentserver.gateways.live.fields import describe_message, find_trace_message, split_lines
from agentserver.gateways.live.layout import HEIGHT, draw_picture
from agentserver.graph import Graph
from agentserver.history import export
from agentserver.history.filters import parse_filter
from agentserver.history.flows import find_flow_lines
from agentserver.history.overview import describe_activity, describe_servers
from agentserver.payload.names import local
from agentserver.ports.schedules import find_state
from agentserver.spending import Amount
from agentserver.trace import text
from agentserver.trace.comparison import compare_messages, find_step_key, is_plumbing, pair_steps
from agentserver.trace.completions import describe, redact_completions, summarize
from agentserver.trace.redact import EVERY, redact_records
from agentserver.trace.terminal import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from agentserver.completion import RecordedCompletion
    from agentserver.core.blueprint import Blueprint
    from agentserver.core.encoding.history import ChargeSum, DeadLetter, DecidedApproval, ListedConversation
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Question
    from agentserver.core.records.details import Detail
    from agentserver.core.state.approvals import Approval
    from agentserver.findings import FindingFacts, Origins
    from agentserver.gateways.live.layout import Picture
    from agentserver.payload.codec import Codecs
    from agentserver.ports import EngineReader
    from agentserver.ports.schedules import Schedule
    from agentserver.ports.servers import ServerState
    from agentserver.trace.redact import Redaction
    from agentserver.trace.terminal import Line
    from agentserver.trace.text import TracedHop

MOST = 200
"""Dead letters and decisions that a page lists."""

ROWS = 1000
"""Records of a conversation that a page shows: the last ones."""


PAGE = 50
"""Conversations of a page of the list."""

PREVIEW = 120
"""Characters of the first message in a list."""

_MARKUP = re.compile(r"<[^>]*>")


def describe_overview(
    reader: EngineReader, period: str, now: float, own_state: ServerState | None = None
) -> dict[str, Any]:
    """Sum up the stored conversations of a period, count the dead letters, and list the servers.

    Args:
        reader: of the engine.
        period: a key of PERIODS, or empty.
        now: seconds since the epoch.
        own_state: this server, listed if the storage lists none; None for readers who see none.
    """
    dead = len(reader.dead(MOST + 1))
    servers = reader.list_servers() or ([] if own_state is None else [own_state])
    return {
        **describe_activity(reader, period, now, make_visible_name),
        "dead": min(dead, MOST),
        "more": dead > MOST,
        "servers": describe_servers(servers, make_visible_name),
    }


def describe_pending(
    queues: Mapping[str, tuple[int, int]], approvals: Iterable[Approval], now: float
) -> dict[str, Any]:
    """Describe the deliveries that a server runs or has queued, and the messages that wait for a person."""
    return {
        "queues": [
            {"name": listener, "queued": queued, "running": running}
            for listener, (queued, running) in sorted(queues.items())
            if queued or running
        ],
        "waiting": [{"id": one.id, **_route(one.delivery), "age": now - one.at} for one in approvals],
    }


def list_conversations(
    reader: EngineReader, redaction: Redaction, where: str = "", after: str = ""
) -> dict[str, Any]:
    """List a page of the conversations that match a filter, the last opened first.

    Raises ValueError for a malformed filter or cursor, and for a search by text where content is hidden.
    """
    chosen = parse_filter(where)
    hidden = EVERY in redaction.fields
    texts = [str(one.value) for one in chosen.conditions if one.field == "text"]
    if texts and hidden:
        raise ValueError("text: only roles that may read messages search in them")
    if any(redaction.secrets(each) != each for each in texts):
        raise ValueError("text: it has a secret of the organism")
    page = reader.list_conversations(chosen, after, PAGE)
    return {"conversations": [_build_listed(one, redaction) for one in page.rows], "after": page.after}


def _build_listed(one: ListedConversation, redaction: Redaction) -> dict[str, Any]:
    fields = one.summary._asdict()
    fields["principal"] = make_visible_name(one.summary.principal)
    marks = [*(["refused"] if one.refused else []), *(["failed"] if one.failed else []), *one.codes]
    return {
        **fields,
        "state": one.state,
        "marks": [make_visible_name(each) for each in marks],
        "addressee": make_visible_name(one.to),
        "preview": _preview(one, redaction),
    }


def _preview(one: ListedConversation, redaction: Redaction) -> str:
    if not one.first or EVERY in redaction.fields:
        return ""
    record = AuditRecord(Event.RECEIVED, one.summary.opened, one.summary.id, "", message=one.first)
    (shown,) = redact_records([record], redaction)
    plain = unescape(_MARKUP.sub(" ", text.format_payload(shown.message)))
    return escape_unseen(" ".join(plain.split())[:PREVIEW])


def describe_conversation(
    reader: EngineReader, redaction: Redaction, conversation: str, *, prompts: bool = False
) -> dict[str, Any]:
    """Describe one conversation as the tree of its hops and completions. Raises LookupError.

    Args:
        reader: of the engine.
        redaction: for the reader's role.
        conversation: its id.
        prompts: whether the reader may read completions; otherwise it learns that a model was asked.
    """
    return _describe_conversation(reader, redaction, conversation, prompts=prompts)[0]


def _describe_conversation(
    reader: EngineReader, redaction: Redaction, conversation: str, *, prompts: bool
) -> tuple[dict[str, Any], Sequence[AuditRecord]]:
    """Describe one conversation. Returns its description, and the records that its rows are numbered by."""
    recorded = reader.recorded_conversation(conversation)
    records = redact_records(recorded.records(), redaction)
    found = reader.list_completions(conversation)
    hops = list(text.interleave(text.order_by_request(text.list_visible_hops(records)), found))
    places = text.CompletionPlaces()
    for one in hops:
        if isinstance(one, text.TracedHop):
            places.note(one)
    keys = {id(one): key for key, one in _iter_number_completions(found)}
    lines = find_flow_lines(recorded)
    numbers = {id(record): number for number, record in enumerate(records)}
    described = {
        "id": recorded.beginning.id,
        "principal": make_visible_name(recorded.beginning.principal),
        "rows": [
            describe_row(one, numbers[id(one.record)], lines)
            if isinstance(one, text.TracedHop)
            else describe_completion_row(one, keys[id(one)], places.find(one), redaction, readable=prompts)
            for one in hops[-ROWS:]
        ],
        "earlier": max(0, len(hops) - ROWS),
        "cost": _sum(cost for _, _, cost in charges(records)),
    }
    return described, records


def compare(
    reader: EngineReader, redaction: Redaction, conversation: str, other: str, *, prompts: bool = False
) -> dict[str, Any]:
    """Pair the steps of two conversations, without plumbing. Raises LookupError."""
    sides = [_describe_conversation(reader, redaction, key, prompts=prompts) for key in (conversation, other)]
    (left, before), (right, after) = sides

    def list_differing(one: Mapping[str, Any], another: Mapping[str, Any]) -> list[str]:
        messages = (before[one["number"]].message, after[another["number"]].message)
        return [escape_unseen(each.name) for each in compare_messages(*messages)]

    return pair_rows(left["rows"], right["rows"], list_differing)


def pair_rows(
    left: list[dict[str, Any]],
    right: list[dict[str, Any]],
    list_differing: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]],
) -> dict[str, Any]:
    """Pair the rows of two conversations, without plumbing.

    Args:
        left: of one.
        right: of the other.
        list_differing: lists the names of the fields that differ in two messages.
    """
    visible = [[one for one in rows if not one.get("plumbing")] for rows in (left, right)]
    return {
        "pairs": [
            {
                "rows": [one, other],
                "differing": list_differing(one, other)
                if one and other and one.get("message") and other.get("message")
                else [],
            }
            for one, other in pair_steps(
                visible[0], visible[1], lambda row: find_step_key(row.get, row["depth"])
            )
        ]
    }


def download(reader: EngineReader, redaction: Redaction, conversation: str) -> str:
    """Write the records of a conversation as JSON lines, without completions. Raises LookupError."""
    recorded = reader.recorded_conversation(conversation)
    records = redact_records(recorded.records(), redaction)
    return "".join(f"{line}\n" for line in text.iter_json_lines(records, lines_of=find_flow_lines(recorded)))


class UnsavableError(Exception):
    """Raised for a conversation that is not saved as a test. Its message says why."""


def write_test(
    reader: EngineReader, secrets: Callable[[str], str], conversation: str, organism: str
) -> bytes:
    """Write a ZIP file with a conversation and the test that decides it again, in the folder ``tests``.

    Args:
        reader: of the engine.
        secrets: removes secrets from a text.
        conversation: its id.
        organism: path of the organism's file from the folder above.

    Raises LookupError, and UnsavableError for an altered conversation and one with a secret.
    """
    recorded = reader.recorded_conversation(conversation)
    altered = reader.find_altered(recorded)
    if altered is not None:
        raise UnsavableError(f"step {altered} was altered")
    found = export.find_secret(recorded, secrets)
    if found is not None:
        raise UnsavableError(f"step {found} contains a secret of the organism")
    name = export.name_test(f"conversation_{conversation[:8]}")
    files = {
        f"tests/{name}.json": export.dump(recorded),
        f"tests/test_{name}.py": export.write_test(f"{name}.json", f"../{organism}").encode(),
    }
    target = BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as zipped:
        for path, data in files.items():
            zipped.writestr(path, data)
    return target.getvalue()


def _iter_number_completions(found: Iterable[RecordedCompletion]) -> Iterator[tuple[str, RecordedCompletion]]:
    """Yield completions with a key of each: its delivery and its number there."""
    numbers: Counter[str] = Counter()
    for one in found:
        numbers[one.delivery] += 1
        yield f"{one.delivery}.{numbers[one.delivery]}", one


def describe_completion_row(
    one: RecordedCompletion,
    key: str,
    place: tuple[int, float],
    redaction: Redaction,
    *,
    readable: bool,
) -> dict[str, Any]:
    """Describe a completion in the tree of its conversation, without its texts.

    Args:
        one: the completion.
        key: by which its texts are asked for.
        place: its depth, and seconds from the beginning of its request to its end.
        redaction: removes secrets.
        readable: False for readers who only learn that there is one.
    """
    depth, elapsed = place
    fields = {
        "event": text.COMPLETED,
        "sender": make_visible_name(one.listener),
        "at": one.at + one.took,
        "request": one.request,
        "delivery": one.delivery,
        "depth": depth,
        "elapsed": elapsed,
        "readable": readable,
    }
    if not readable:
        return fields
    return {
        **fields,
        "key": key,
        "took": one.took,
        "model": make_visible_name(one.model),
        "fault": make_visible_name(redaction.secrets(one.fault)),
        "summary": escape_unseen(redaction.secrets(summarize(one))[:SAID]),
    }


def show_completion(
    reader: EngineReader, redaction: Redaction, conversation: str, completion: str
) -> dict[str, Any]:
    """Show the prompt and the answer of one completion, as headings with lines. Raises LookupError."""
    recorded = reader.recorded_conversation(conversation)
    found = dict(_iter_number_completions(reader.list_completions(conversation)))[completion]
    (shown,) = redact_completions([found], recorded.records(), redaction)
    parts = describe(shown)
    if shown.content is not None:
        offered = [each for each in shown.content.tools if each.description or each.schema]
        parts += [(f"tool {each.name}", f"{each.description}\n{each.schema}".strip()) for each in offered]
    return {
        "parts": [
            {"heading": make_visible_name(heading), "lines": split_lines(text)} for heading, text in parts
        ]
    }


def show_message(
    reader: EngineReader,
    redaction: Redaction,
    rules: Rules | None,
    conversation: str,
    number: str,
) -> dict[str, Any]:
    """Show one message of a conversation, complete, as fields with the origins of their values. Raises LookupError.

    Args:
        reader: of the engine.
        redaction: for the reader's role.
        rules: by which origins are found; None for readers without access to content.
        conversation: its id.
        number: of the message's record.
    """
    recorded = reader.recorded_conversation(conversation)
    records = redact_records(recorded.records(), redaction)
    numbers = {str(at): at for at, one in enumerate(records) if one.message}
    at = numbers[number]
    traced = None if rules is None else find_trace_message(recorded, rules, records[at])
    return describe_message(records, at, traced, redaction)


# Decisions and usage


def list_decisions(reader: EngineReader, limit: int = MOST) -> list[dict[str, Any]]:
    """List the decisions of people, latest first."""
    return [
        {
            **_route(one),
            "at": one.at,
            "granted": one.granted,
            "answer": escape_unseen(
                WORDING.first(NoAnswer(one.reason) if one.reason else ApprovalGiven(one.by, one.answer))[
                    :NAME
                ]
            ),
            "by": escape_unseen(one.by[:NAME]),
        }
        for one in reader.list_decisions(limit)
    ]


def sum_usage(reader: EngineReader, since: float) -> dict[str, Any]:
    """Sum the charges since a time, by listener, model and principal."""
    found = reader.list_charges(since)
    return {
        "listeners": _sort_charges((one.listener, one) for one in found),
        "models": _sort_charges((one.model, one) for one in found),
        "principals": _sort_charges((one.principal, one) for one in found),
    }


def list_schedules(reader: EngineReader, known: Sequence[Schedule], now: float) -> list[dict[str, Any]]:
    """List the schedules, the one that is due first at the beginning."""
    orders = reader.list_schedule_orders()
    listed = []
    for one in known:
        about = [each for each in orders if each.schedule == one.name]
        state = find_state(about)
        listed.append(
            {
                "name": one.name,
                "listener": one.listener,
                "recurrence": str(one.recurrence),
                "due": one.recurrence.next_after(now),
                "paused": escape_unseen(state.by[:NAME])
                if state is not None and state.kind == "paused"
                else "",
                "ordered": sum(each.kind == "run" for each in about),
            }
        )
    return sorted(listed, key=lambda row: float(str(row["due"])))


def charges(records: Iterable[AuditRecord]) -> Iterator[tuple[str, str, Amount]]:
    """Yield priced work: the listener, a word for the work, and its cost, or else the most that it may cost."""
    open_: dict[str, deque[AuditRecord]] = {}
    for record in records:
        match record.event, record.detail:
            case Event.RESERVED, Charge():
                open_.setdefault(record.delivery, deque()).append(record)
            case Event.SETTLED, Charge() as cost:
                reserved = open_.get(record.delivery)
                charge = reserved.popleft().detail if reserved else None
                purpose = charge.work if isinstance(charge, Charge) else ""
                yield record.to, purpose, Amount(cost.tokens, cost.money)
    for record in (each for many in open_.values() for each in many):
        if isinstance(record.detail, Charge):
            yield record.to, record.detail.work, Amount(record.detail.tokens, record.detail.money)


def _sum(costs: Iterable[Amount]) -> dict[str, int]:
    total = sum(costs, Amount())
    return {"tokens": total.tokens, "money": total.money}


def _sort_charges(found: Iterable[tuple[str, ChargeSum]]) -> list[dict[str, Any]]:
    """Sort the charges by name, most expensive first."""
    calls: dict[str, int] = {}
    costs: dict[str, Amount] = {}
    for key, one in found:
        calls[key] = calls.get(key, 0) + one.calls
        costs[key] = costs.get(key, Amount()) + Amount(one.tokens, one.money)
    ordered = sorted(costs, key=lambda key: (-costs[key].money, -costs[key].tokens, key))
    return [
        {
            "name": make_visible_name(key),
            "tokens": costs[key].tokens,
            "money": costs[key].money,
            "calls": calls[key],
        }
        for key in ordered[:MOST]
    ]


# Dead letters


def list_dead(reader: EngineReader, redaction: Redaction, limit: int = MOST) -> dict[str, Any]:
    """List the dead letters and those that were discarded, latest first."""
    found = reader.dead(limit + 1)
    return {
        "letters": [_build_letter(one, redaction) for one in found[: -limit - 1 : -1]],
        "more": len(found) > limit,
        "discarded": [
            {**_build_letter(one, redaction), "by": make_visible_name(redaction.secrets(one.discarded_by))}
            for one in reversed(reader.list_discarded(limit))
        ],
    }


def show_letter(reader: EngineReader, redaction: Redaction, delivery: str) -> dict[str, Any]:
    """Show one dead letter with the fields of its message. Raises LookupError."""
    one = find_letter(reader, delivery)
    shown = _redact_letter(one, redaction)
    return {**_build_letter(one, redaction), **describe_message([shown], 0, None, redaction)}


def find_letter(reader: EngineReader, delivery: str) -> DeadLetter:
    """Find the dead letter of a delivery. Raises LookupError."""
    for one in reader.dead(prefix=delivery):
        if one.delivery.id == delivery:
            return one
    raise LookupError(delivery)


def _redact_letter(one: DeadLetter, redaction: Redaction) -> AuditRecord:
    """Describe a dead letter as a record without what its reader may not see."""
    delivery = one.delivery
    record = AuditRecord(
        Event.FAILED,
        one.at,
        delivery.conversation,
        delivery.thread,
        detail=FreeText(one.reason),
        message=delivery.message,
    )
    (shown,) = redact_records([record], redaction)
    return shown


def _build_letter(one: DeadLetter, redaction: Redaction) -> dict[str, Any]:
    delivery, shown = one.delivery, _redact_letter(one, redaction)
    reason = shown.detail.text if isinstance(shown.detail, FreeText) else ""
    if EVERY in redaction.fields:  # it may quote another message, which is not at hand here to be looked for
        code = reason.partition(":")[0]
        reason = code if code in set(Code) else ""
    return {
        "delivery": delivery.id,
        **_route(delivery),
        "principal": make_visible_name(one.principal),
        "at": one.at,
        "open": one.open,
        "reason": escape_unseen(reason[:SAID]),
    }


NAME = 128
"""Characters of a name that a sender may have written."""

SAID = 2_000
"""Characters of a message in a list of many."""


def make_visible_name(text: str) -> str:
    """Make a name visible, and bound its length."""
    return escape_unseen(text[:NAME])


def _route(one: Delivery | AuditRecord | DecidedApproval) -> dict[str, Any]:
    """Describe where a message goes."""
    names = {"sender": one.sender, "to": one.to, "root": local(one.root)}
    return {"conversation": one.conversation, **{key: make_visible_name(text) for key, text in names.items()}}


def lines(styled: Iterable[Line], show: Callable[[str], str] = cut) -> list[list[list[str]]]:
    """Convert lines of styled segments to the name of each segment's style and its text."""
    return [[[style.name.lower(), show(part)] for style, part in line] for line in styled]


def describe_hop(record: AuditRecord) -> dict[str, Any]:
    """Describe a record as a message in transit."""
    return {
        "event": str(record.event),
        **_route(record),
        "at": record.at,
        "code": record.code,
        "why": escape_unseen(WORDING.first(record.detail)[:SAID]),
    }


def describe_row(one: TracedHop, number: int, flow_lines: Mapping[str, int]) -> dict[str, Any]:
    """Describe a record in the tree of its conversation.

    Args:
        one: the record in its place.
        number: among the records.
        flow_lines: of source at which flows sent messages, by delivery.
    """
    record, detail = one.record, one.record.detail
    return {
        **describe_hop(record),
        "depth": one.depth,
        "elapsed": one.elapsed,
        "took": one.took,
        "hop": record.hop,
        "delivery": record.delivery,
        "request": record.request,
        "more": [escape_unseen(each[:SAID]) for each in WORDING.describe_lines(detail)[1:]],
        "cost": [detail.tokens, detail.money] if isinstance(detail, Charge) else None,
        "ways": list_ways(detail),
        "number": number,
        "line": flow_lines.get(record.delivery, 0) if record.event is Event.SENT else 0,
        "message": bool(record.message),
        "plumbing": is_plumbing(record),
    }


# Lineage


def list_ways(detail: Detail | None) -> list[dict[str, Any]]:
    """List the flows of values in a detail, each from its source to the sink."""
    match detail:
        case Findings():
            return [_describe_path(detail, one) for one in detail.findings if one.trail is not None]
        case GuardQuestions():
            return [
                way for describe_approval in detail.questions for way in list_ways(describe_approval.reason)
            ]
        case _:
            return []


def _describe_path(findings: Findings, one: FindingFacts) -> dict[str, Any]:
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
        "source": {
            "listener": make_visible_name(trail.source),
            "field": escape_unseen(trail.field),
            "step": trail.step,
        },
        "hops": [{"listener": make_visible_name(listener), "step": step} for listener, step in passed],
        "sink": {
            "listener": make_visible_name(findings.sink),
            "field": escape_unseen(one.argument),
            "step": findings.step,
        },
    }


# Approvals


def describe_approval(approval: Approval, principal: str) -> dict[str, Any]:
    """Describe an open approval for a list."""
    delivery = approval.delivery
    return {
        "id": approval.id,
        **_route(delivery),
        "at": approval.at,
        "principal": make_visible_name(principal),
        "why": escape_unseen(WORDING.first(approval.questions[0].reason)[:SAID]),
    }


def describe_question(
    approval: Approval,
    codecs: Codecs,
    redaction: Redaction,
    origins: Origins | None = None,
    *,
    with_content: bool = True,
) -> dict[str, Any]:
    """Describe an open approval completely, but for the digest that an answer is bound to.

    Args:
        approval: the open approval.
        codecs: decode it.
        redaction: for the reader's role.
        origins: of its values; None if they are not tracked.
        with_content: False for readers without access to content.
    """
    seen = _redact(approval, redaction)
    message = approval_view.format_message_lines(seen, codecs, redaction.secrets)[:-1]
    return {
        "reasons": lines(map(_strip_margin, approval_view.format_reasons(seen)), escape_unseen),
        "ways": [way for one in seen.questions for way in list_ways(one.reason)],
        "said": lines(map(_strip_margin, message), escape_unseen),
        "origins": lines(
            map(
                _strip_margin,
                approval_view.format_origin_lines(origins, redaction.secrets) if with_content else (),
            ),
            escape_unseen,
        ),
        "always": [escape_unseen(each) for one in seen.questions for each in _covers(one, approval)]
        if with_content
        else [],
    }


def _strip_margin(line: Line) -> Line:
    """Remove the margin that marks quoted text on a terminal: a page frames it."""
    (style, margin), *parts = line
    return ((style, margin.removeprefix(MARGIN).removeprefix(ASKS)), *parts)


def _redact(approval: Approval, redaction: Redaction) -> Approval:
    """Hide the parts of the approval that its reader may not see."""
    delivery = approval.delivery
    reasons = GuardQuestions(tuple(GuardAsks(one.guard, one.reason) for one in approval.questions))
    record = AuditRecord(
        Event.ASKED,
        approval.at,
        delivery.conversation,
        delivery.thread,
        detail=reasons,
        message=delivery.message,
    )
    (shown,) = redact_records([record], redaction)
    detail = shown.detail
    assert isinstance(detail, GuardQuestions)
    questions = tuple(
        one._replace(reason=redacted.reason)
        for one, redacted in zip(approval.questions, detail.questions, strict=True)
    )
    return approval._replace(delivery=delivery._replace(message=shown.message), questions=questions)


def _covers(one: Question, approval: Approval) -> Iterator[str]:
    """Describe what an answer for the rest of the conversation covers, for one question."""
    to = approval.delivery.to
    match one.reason:
        case Findings():
            effective = [each for each in one.reason.findings if each.effect != "report"]
            for each in effective:
                if each.argument:
                    yield f'"{each.value}" as {each.argument} of {to}'
                else:
                    yield f"this very call of {to}, for: {PHRASES[f'rule {each.rule}']}"
        case Grounds():
            yield f"the same content to {to}"
        case _:
            yield f"what the guard {one.guard} takes for the same"


class LayoutCache:
    """Lays an organism out when it is first asked for it, and again when it is another one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._of: Blueprint | None = None
        self._description: dict[str, Any] = {}
        self._one = anyio.Lock()
        self.drawn = 0

    async def describe(self, blueprint: Blueprint) -> dict[str, Any]:
        """Describe the picture of an organism and its listeners."""
        async with self._one:
            if self._of is not blueprint:
                graph = Graph(self._name, tuple(blueprint.listeners.values()))
                drawn = await anyio.to_thread.run_sync(draw_picture, graph)
                self._description, self._of = _describe(drawn, self._name, blueprint), blueprint
                self.drawn += 1
            return self._description


def _describe(drawn: Picture, title: str, blueprint: Blueprint) -> dict[str, Any]:
    boxes = [
        {
            "name": box.listener.name,
            "x": box.x,
            "y": box.y,
            "width": box.width,
            "height": HEIGHT,
            "agent": box.listener.agent,
            "broadcast": box.listener.broadcast,
            "members": box.members,
        }
        for box in drawn.boxes
    ]
    return {
        "name": title,
        "width": drawn.width,
        "height": drawn.height,
        "notes": drawn.graph.notes,
        "boxes": boxes,
        "lines": list(map(asdict, drawn.lines)),
        "listeners": _collect_listeners(blueprint),
    }


def _collect_listeners(blueprint: Blueprint) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "description": escape_unseen(one.description),
            "agent": one.agent,
            "approval": "" if one.approval is None else str(one.approval),
            "peers": sorted(one.peers),
            "takes": sorted(map(local, blueprint.roots.get(one.name, ()))),
            "room": one.concurrency,
        }
        for one in blueprint.listeners.values()
    ]
