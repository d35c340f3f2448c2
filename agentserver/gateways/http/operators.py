"""HTTP routes of approvals and traces, limited to the caller's role."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.routing import Route

from agentserver.core.decide import answers
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.findings import describe_origin_words, redact_origins, write_answered_words
from agentserver.foreign_json.reading import JsonLimits
from agentserver.gateways.hosts import list_approvals
from agentserver.gateways.http import forms
from agentserver.gateways.http.conversations import CONVERSATION
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    read_caller,
    read_host,
    receive_body,
    report_unknown,
)
from agentserver.payload.json.values import JsonRefusal, read_json
from agentserver.trace.redact import EVERY, Redaction, collect_names, redact_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval
    from agentserver.findings import Origins
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.principals import Caller
    from agentserver.ports import EngineReader

RECORDS: Final = 4096
"""Records of a conversation that are shown at once: its latest."""


def build_part() -> DoorPart:
    """Build the routes of approvals and traces."""
    return DoorPart(
        "deciding",
        (
            Route(f"{CONVERSATION}/trace", show_trace, methods=["GET"]),
            Route("/v1/approvals", approvals, methods=["GET"]),
            Route("/v1/approvals/{approval}", show_approval, methods=["GET"]),
            Route("/v1/approvals/{approval}", answer, methods=["POST"]),
        ),
        spends=False,
    )


async def approvals(request: Request) -> Response:
    """List the open approvals, oldest first."""
    principal, server = read_caller(request), read_host(request)
    if not principal.oversees:
        raise ProblemAnswer(403, "This role sees no approvals.")
    found = [_build_approval(one, server, principal) for one in list_approvals(server, principal)]
    return forms.build_json_response({"approvals": found})


async def show_approval(request: Request) -> Response:
    """Show one open approval, with the origins of its values and the texts that it answers."""
    principal, server = read_caller(request), read_host(request)
    if not principal.oversees:
        raise ProblemAnswer(403, "This role sees no approvals.")
    one = _find_approval(request)
    described = _build_approval(one, server, principal)
    conversation = server.conversation(one.delivery.conversation)
    if conversation is not None and not principal.redacted:
        origins = server.rules.origins(conversation, one.delivery)
        described = {
            **described,
            "origins": None if origins is None else _build_origins(origins, server.rules.redact),
        }
    return forms.build_json_response(described)


def _build_origins(found: Origins, redact: Callable[[str], str]) -> Mapping[str, Any]:
    found = redact_origins(found, redact)
    values = [{**one._asdict(), "words": describe_origin_words(one)} for one in found.values]
    answered = [
        {
            "source": one.source,
            "step": one.step,
            "untrusted": True,
            "words": write_answered_words(one),
            "cut": one.cut,
            "texts": [{"field": each.field, "text": each.text} for each in one.texts],
        }
        for one in found.answered
    ]
    return {"values": values, "answered": answered, "request": found.request, "more": found.more}


def _find_approval(request: Request) -> Approval:
    """Find the approval of a path. Raises ProblemAnswer."""
    key = request.path_params["approval"]
    one = next(
        (each for each in list_approvals(read_host(request), read_caller(request)) if each.id == key), None
    )
    if one is None:
        raise ProblemAnswer(404, "No approval of this id is open.")
    return one


def _build_approval(one: Approval, server: DoorHost, caller: Caller) -> Mapping[str, Any]:
    delivery = one.delivery
    redact = server.rules.redact
    content = forms.redact_value(forms.encode_payload(delivery.message, server.rules), redact)
    questions = [
        {"guard": each.guard, "why": [*map(redact, WORDING.describe_lines(each.reason))]}
        for each in one.questions
    ]
    if caller.redacted:
        content = forms.remove_without_content(content, len(delivery.message))
        questions = [{"guard": each.guard} for each in one.questions]
    return {
        "id": one.id,
        "conversation": delivery.conversation,
        "request": delivery.request,
        "from": delivery.sender,
        "to": delivery.to,
        **content,
        "at": one.at,
        "until": one.at + server.rules.blueprint.find_approval_time(delivery.to),
        "digest": one.digest if caller.decides else "",  # one would guess an amount by it
        "questions": questions,
    }


async def answer(request: Request) -> Response:
    """Decide about one message that waits, as it was shown."""
    principal, server = read_caller(request), read_host(request)
    if not principal.decides:
        raise ProblemAnswer(403, "This role decides about nothing.")
    digest, decision = _parse_decision(read_json(await receive_body(request), JsonLimits(values=10)))
    one = _find_approval(request)
    conversation = server.conversation(one.delivery.conversation)
    barred = (
        ""
        if conversation is None
        else answers.bar_approver(conversation, principal.name, server.rules, one.delivery.to)
    )
    if barred and decision is not Answer.DENY:
        raise ProblemAnswer(403, f"{barred}.")
    if not await server.answer(
        one.delivery.conversation, ApprovalAnswer(one.id, digest, decision, principal.name)
    ):
        raise ProblemAnswer(409, "Another message waits than the one that was shown, or none any more.")
    return Response(status_code=204)


def _parse_decision(found: Any) -> tuple[str, Answer]:
    """Parse the digest and the answer of a body. Raises ProblemAnswer."""
    if not isinstance(found, JsonRefusal) and isinstance(found, dict) and set(found) == {"digest", "answer"}:
        digest, decision = found["digest"], found["answer"]
        if isinstance(digest, str) and decision in tuple(Answer):
            return digest, Answer(decision)
    raise ProblemAnswer(422, "An answer is the digest that was shown, and once, always or deny.")


async def show_trace(request: Request) -> Response:
    """Show the records of a conversation: users see senders and targets, operators also reasons and content."""
    principal, server, key = read_caller(request), read_host(request), request.path_params["conversation"]
    with report_unknown():
        await server.find_conversation(principal.sees, key)
    records = redact_records(await read_records(server, key), choose_redaction(principal, server))
    found = [_record(each, principal, server) for each in records]
    return forms.build_json_response({"now": time.time(), "records": found})


def choose_redaction(caller: Caller, server: DoorHost) -> Redaction:
    """Choose what is hidden from a caller in records: secrets, and from a viewer all content."""
    if caller.redacted:
        return Redaction((EVERY,), server.rules.redact, collect_names(server.rules.blueprint))
    return Redaction(secrets=server.rules.redact)


async def read_records(server: DoorHost, conversation: str) -> Sequence[AuditRecord]:
    """Return the latest records of a conversation, from the engine or else from memory."""

    def work(reader: EngineReader) -> Sequence[AuditRecord]:
        return reader.recorded_conversation(conversation).records()

    try:
        found = await server.read(work)
    except LookupError:  # of an engine that keeps no steps
        found = server.trace.list_records(conversation)
    return found[-RECORDS:]


def _record(record: AuditRecord, caller: Caller, server: DoorHost) -> Mapping[str, Any]:
    members: dict[str, Any] = {
        "event": str(record.event),
        "at": record.at,
        "thread": record.thread,
        "from": record.sender,
        "to": record.to,
        "payload": record.root,
        "hop": record.hop,
        "code": record.code,
        "delivery": record.delivery,
        "request": record.request,
        "took": record.took,
    }
    if caller.oversees:
        members["detail"] = list(WORDING.describe_lines(record.detail))
    if caller.decides and record.message:
        members |= {"message": forms.encode_payload(record.message, server.rules)}
    return {name: each for name, each in members.items() if each not in ("", None, [])}
