"""HTTP routes that read: conversations, their history and usage, dead letters, schedules. Users see their own only.

Each answer has an ETag, so that a client that has it already gets 304 (RFC 9110, 13.1.2).
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import Response
from starlette.routing import Route

from agentserver.core.encoding.history import Condition, ConversationFilter
from agentserver.core.records.audit import Event
from agentserver.gateways.http import forms
from agentserver.gateways.http.conversations import CONVERSATION
from agentserver.gateways.http.operators import RECORDS, choose_redaction, read_records
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    path_to,
    read_caller,
    read_header,
    read_host,
    report_unknown,
)
from agentserver.gateways.tenants import OwnedReader
from agentserver.history.filters import STARTS, parse_filter
from agentserver.payload.names import local
from agentserver.ports.schedules import find_state
from agentserver.trace.redact import redact_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.requests import Request

    from agentserver.core.encoding.history import ConversationPage, DeadLetter, ListedConversation
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.conversation import Conversation
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.principals import Caller
    from agentserver.ports import EngineReader
    from agentserver.ports.schedules import Schedule

PAGE: Final = 50
"""Rows of a page, if the request does not say."""

MOST: Final = 200
"""Greatest number of rows of a page."""

_NEXT: Final = '<{}>; rel="next"'
_LONGEST: Final = 1000
_DOLLAR: Final = 1_000_000
_LEFT: Final = frozenset({Event.ANSWERED, Event.ENDED, Event.CANCELLED})
_ENTERED: Final = frozenset({Event.SENT, Event.ASKED, Event.REFUSED})
"""Events of messages that leave, and, with the principal as the sender, of those that enter."""

_LINKS: Final = ("history", "usage", "events", "trace", "messages")


def build_part() -> DoorPart:
    """Build the routes that read."""
    return DoorPart(
        "lists",
        (
            Route("/v1/conversations", list_conversations, methods=["GET"]),
            Route(CONVERSATION, show_conversation, methods=["GET"]),
            Route(f"{CONVERSATION}/history", show_history, methods=["GET"]),
            Route(f"{CONVERSATION}/usage", show_conversation_usage, methods=["GET"]),
            Route("/v1/usage", sum_usage, methods=["GET"]),
            Route("/v1/dead-letters", list_dead_letters, methods=["GET"]),
            Route("/v1/schedules", list_schedules, methods=["GET"]),
        ),
    )


async def list_conversations(request: Request) -> Response:
    """List a page of conversations, the last opened first."""
    principal, query = read_caller(request), _query(request, {"where", "after", "limit"})
    limit, after = _parse_number(query.get("limit", str(PAGE))), query.get("after", "")
    try:
        conditions = parse_filter(query.get("where", "")).conditions
        _refuse_hidden_text(principal, conditions)
        page = await _read_page(read_host(request), principal, conditions, after, limit)
    except ValueError as error:
        raise ProblemAnswer(400, f"{error}.") from None
    rows = [
        {**_build_row(one, principal), "href": _format_href(request, one.summary.id)} for one in page.rows
    ]
    found: dict[str, Any] = {"conversations": rows, "after": page.after}
    if not page.after:
        return _tagged(request, found)
    following = path_to(request, f"/v1/conversations?{urlencode({**query, 'after': page.after})}")
    return _tagged(request, found, {"link": _NEXT.format(following)})


def _refuse_hidden_text(caller: Caller, conditions: Iterable[Condition]) -> None:
    """Raise ValueError for a search by text of a caller who may not read messages."""
    if caller.redacted and any(one.field == "text" for one in conditions):
        raise ValueError("text: only roles that may read messages search in them")


async def show_conversation(request: Request) -> Response:
    """Show one conversation, with its open requests and the approvals that they wait for."""
    principal, server, key = read_caller(request), read_host(request), request.path_params["conversation"]
    row = await _find(request)
    state = await server.read(lambda reader: reader.load(key)) if row.summary.closed is None else None
    href = _format_href(request, key)
    links = {name: f"{href}/{name}" for name in _LINKS}
    return _tagged(
        request, {**_build_row(row, principal), **_progress(state, server), "links": {"self": href, **links}}
    )


def _progress(state: Conversation | None, server: DoorHost) -> Mapping[str, Any]:
    if state is None:
        return {"requests": [], "waits": []}
    requests = [{"request": key, "pending": one.pending} for key, one in state.requests.items()]
    return {
        "requests": requests,
        "waits": [forms.encode_waiting(one, server.rules) for one in state.approvals()],
    }


async def show_history(request: Request) -> Response:
    """Show the messages that its principal sent and received, as far as the caller's role may read them."""
    principal, server, key = read_caller(request), read_host(request), request.path_params["conversation"]
    with report_unknown():
        owner = (await server.find_conversation(principal.sees, key)).principal
    latest = await read_records(server, key)
    records = [
        each for each in latest if each.event in _LEFT or (each.event in _ENTERED and each.sender == owner)
    ]
    found = redact_records(records, choose_redaction(principal, server))
    events = [_build_history_entry(each, principal, server) for each in found]
    return _tagged(request, {"conversation": key, "events": events, "cut": len(latest) >= RECORDS})


def _build_history_entry(record: AuditRecord, caller: Caller, server: DoorHost) -> Mapping[str, Any]:
    members: dict[str, Any] = {
        "event": str(record.event),
        "at": record.at,
        "request": record.request,
        "from": record.sender,
        "to": record.to,
        "payload": local(record.root),
        "code": record.code,
    }
    if record.message and not caller.redacted and record.event is not Event.REFUSED:
        members |= forms.encode_payload(record.message, server.rules)
    elif record.message and caller.redacted:
        members["redacted"] = len(record.message)
    return {name: each for name, each in members.items() if each not in ("", None)}


async def show_conversation_usage(request: Request) -> Response:
    """Show the charges of one conversation."""
    return _tagged(request, _charged((await _find(request)).summary))


async def sum_usage(request: Request) -> Response:
    """Sum the charges of the caller's conversations by listener and model; those of everybody for operators."""
    principal = read_caller(request)
    since = _parse_number(_query(request, {"since"}).get("since", "0"), 0, 10**12)
    found = await read_host(request).read(
        lambda reader: _limit_to_own(reader, principal).list_charges(float(since))
    )
    rows = [
        {
            "listener": one.listener,
            "model": one.model,
            **({"principal": one.principal} if principal.oversees else {}),
            "calls": one.calls,
            **_charged(one),
        }
        for one in found
    ]
    return _tagged(request, {"usage": rows})


async def list_dead_letters(request: Request) -> Response:
    """List the messages that their listeners could not handle, the latest first."""
    principal, server = read_caller(request), read_host(request)
    limit = _parse_number(_query(request, {"limit"}).get("limit", str(PAGE)))
    found = await server.read(lambda reader: _limit_to_own(reader, principal).dead(limit))
    return _tagged(request, {"letters": [_build_letter(one, principal, server) for one in reversed(found)]})


def _limit_to_own(reader: EngineReader, caller: Caller) -> EngineReader | OwnedReader:
    """Limit a reader to what the caller sees."""
    return reader if caller.sees is None else OwnedReader(reader, caller.sees)


def _build_letter(one: DeadLetter, caller: Caller, server: DoorHost) -> Mapping[str, Any]:
    code, _, reason = one.reason.partition(": ")
    members = {
        "delivery": one.delivery.id,
        "conversation": one.delivery.conversation,
        "request": one.delivery.request,
        "from": one.delivery.sender,
        "to": one.delivery.to,
        "payload": local(one.delivery.root),
        "at": one.at,
        "code": code,
        "open": one.open,
    }
    if not caller.oversees:
        return members
    members["principal"] = one.principal
    redact = server.rules.redact
    content = forms.redact_value(forms.encode_payload(one.delivery.message, server.rules), redact)
    if caller.redacted:
        return {**members, **forms.remove_without_content(content, len(one.delivery.message))}
    return {**members, **content, "reason": redact(reason)}


async def list_schedules(request: Request) -> Response:
    """List what the organism sends at set times. For operators and viewers."""
    principal, server = read_caller(request), read_host(request)
    if principal.sees is not None:
        raise ProblemAnswer(403, "This role sees no schedules.")
    orders = await server.read(lambda reader: reader.list_schedule_orders())
    found = []
    for one in server.schedules:
        state = find_state([each for each in orders if each.schedule == one.name])
        found.append(_schedule(one, "" if state is None or state.kind != "paused" else state.by))
    return _tagged(request, {"schedules": found})


def _schedule(one: Schedule, paused_by: str) -> Mapping[str, Any]:
    return {
        "name": one.name,
        "to": one.listener,
        "recurrence": str(one.recurrence),
        "due": one.recurrence.next_after(time.time()),
        "paused": paused_by,
    }


async def _read_page(
    server: DoorHost, caller: Caller, conditions: Sequence[Condition], after: str, limit: int
) -> ConversationPage:
    """Read a page of the conversations that the caller sees. Raises ValueError for a malformed cursor."""
    own = (
        ()
        if caller.sees is None
        else (Condition("principal", STARTS if caller.oversees else "=", caller.sees),)
    )
    chosen = ConversationFilter((*own, *conditions))
    return await server.read(lambda reader: reader.list_conversations(chosen, after, limit))


async def _find(request: Request) -> ListedConversation:
    """Find the row of the conversation that the path names. Raises ProblemAnswer (404)."""
    principal, server, key = read_caller(request), read_host(request), request.path_params["conversation"]
    with report_unknown():
        await server.find_conversation(principal.sees, key)
        page = await _read_page(server, principal, (Condition("id", "=", key),), "", 1)
        if not page.rows:
            raise LookupError(key)
    return page.rows[0]


def _build_row(listed: ListedConversation, caller: Caller) -> Mapping[str, Any]:
    one = listed.summary
    members = {
        "conversation": one.id,
        "principal": one.principal if caller.oversees else "",
        "state": listed.state,
        "opened": one.opened,
        "touched": one.touched,
        "closed": one.closed,
        "steps": one.steps,
        "waiting": one.waiting,
        "unread": one.unread,
        "due": one.due,
        **_charged(one),
    }
    return {name: each for name, each in members.items() if each not in ("", None)}


def _charged(one: Any) -> Mapping[str, Any]:
    """Show a charge: tokens, and US dollars."""
    return {"tokens": one.tokens, "cost": one.money / _DOLLAR}


def _format_href(request: Request, conversation: str) -> str:
    return path_to(request, f"/v1/conversations/{quote(conversation)}")


def _query(request: Request, known: set[str]) -> dict[str, str]:
    """Return the parameters of a request. Raises ProblemAnswer for an unknown or long one."""
    found = dict(request.query_params)
    if found.keys() - known or any(len(each) > _LONGEST for each in found.values()):
        raise ProblemAnswer(
            400, f"The parameters are {', '.join(sorted(known))}, of at most {_LONGEST} characters."
        )
    return found


def _parse_number(text: str, minimum: int = 1, maximum: int = MOST) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(maximum))
    if not digits or not minimum <= int(text) <= maximum:
        raise ProblemAnswer(400, f"A number is from {minimum} to {maximum}.")
    return int(text)


def _tagged(request: Request, found: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Build the answer with its ETag; 304 without a body if the client has it already."""
    body = forms.dump_json(found)
    sent_headers = {"etag": f'"{sha256(body).hexdigest()[:32]}"', **(headers or {})}
    known = [each.strip().removeprefix("W/") for each in read_header(request, b"if-none-match").split(",")]
    if sent_headers["etag"] in known or "*" in known:
        return Response(status_code=304, headers=sent_headers)
    return Response(body, headers=sent_headers, media_type=forms.JSON)
