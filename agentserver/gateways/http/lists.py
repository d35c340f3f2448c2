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
from agentserver.gateways.http.operators import RECORDS, read_records, redaction_for
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    caller,
    header,
    host,
    path_to,
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


def part() -> DoorPart:
    """Build the routes that read."""
    return DoorPart(
        "lists",
        (
            Route("/v1/conversations", conversations, methods=["GET"]),
            Route(CONVERSATION, conversation, methods=["GET"]),
            Route(f"{CONVERSATION}/history", history, methods=["GET"]),
            Route(f"{CONVERSATION}/usage", conversation_usage, methods=["GET"]),
            Route("/v1/usage", usage, methods=["GET"]),
            Route("/v1/dead-letters", dead_letters, methods=["GET"]),
            Route("/v1/schedules", schedules, methods=["GET"]),
        ),
    )


async def conversations(request: Request) -> Response:
    """List a page of conversations, the last opened first."""
    who, query = caller(request), _query(request, {"where", "after", "most"})
    most, after = _number(query.get("most", str(PAGE))), query.get("after", "")
    try:
        conditions = parse_filter(query.get("where", "")).conditions
        _refuse_hidden_text(who, conditions)
        page = await _page(host(request), who, conditions, after, most)
    except ValueError as error:
        raise ProblemAnswer(400, f"{error}.") from None
    rows = [{**_row(one, who), "href": _href(request, one.summary.id)} for one in page.rows]
    found: dict[str, Any] = {"conversations": rows, "after": page.after}
    if not page.after:
        return _tagged(request, found)
    following = path_to(request, f"/v1/conversations?{urlencode({**query, 'after': page.after})}")
    return _tagged(request, found, {"link": _NEXT.format(following)})


def _refuse_hidden_text(who: Caller, conditions: Iterable[Condition]) -> None:
    """Raise ValueError for a search by text of a caller who may not read messages."""
    if who.redacted and any(one.field == "text" for one in conditions):
        raise ValueError("text: only roles that may read messages search in them")


async def conversation(request: Request) -> Response:
    """Show one conversation, with its open requests and the approvals that they wait for."""
    who, server, key = caller(request), host(request), request.path_params["conversation"]
    row = await _find(request)
    kept = await server.read(lambda reader: reader.load(key)) if row.summary.closed is None else None
    href = _href(request, key)
    links = {name: f"{href}/{name}" for name in _LINKS}
    return _tagged(request, {**_row(row, who), **_progress(kept, server), "links": {"self": href, **links}})


def _progress(kept: Conversation | None, server: DoorHost) -> Mapping[str, Any]:
    if kept is None:
        return {"requests": [], "waits": []}
    requests = [{"request": key, "pending": one.pending} for key, one in kept.requests.items()]
    return {
        "requests": requests,
        "waits": [forms.waiting_json(one, server.rules) for one in kept.approvals()],
    }


async def history(request: Request) -> Response:
    """Show the messages that its principal sent and received, as far as the caller's role may read them."""
    who, server, key = caller(request), host(request), request.path_params["conversation"]
    with report_unknown():
        owner = (await server.find_conversation(who.sees, key)).principal
    latest = await read_records(server, key)
    shown = [
        each for each in latest if each.event in _LEFT or (each.event in _ENTERED and each.sender == owner)
    ]
    found = redact_records(shown, redaction_for(who, server))
    events = [_said(each, who, server) for each in found]
    return _tagged(request, {"conversation": key, "events": events, "cut": len(latest) >= RECORDS})


def _said(record: AuditRecord, who: Caller, server: DoorHost) -> Mapping[str, Any]:
    told: dict[str, Any] = {
        "event": str(record.event),
        "at": record.at,
        "request": record.request,
        "from": record.sender,
        "to": record.to,
        "payload": local(record.root),
        "code": record.code,
    }
    if record.message and not who.redacted and record.event is not Event.REFUSED:
        told |= forms.payload_json(record.message, server.rules)
    elif record.message and who.redacted:
        told["redacted"] = len(record.message)
    return {name: each for name, each in told.items() if each not in ("", None)}


async def conversation_usage(request: Request) -> Response:
    """Show the charges of one conversation."""
    return _tagged(request, _charged((await _find(request)).summary))


async def usage(request: Request) -> Response:
    """Sum the charges of the caller's conversations by listener and model; those of everybody for operators."""
    who = caller(request)
    since = _number(_query(request, {"since"}).get("since", "0"), 0, 10**12)
    found = await host(request).read(lambda reader: _own(reader, who).list_charges(float(since)))
    rows = [
        {
            "listener": one.listener,
            "model": one.model,
            **({"principal": one.principal} if who.oversees else {}),
            "calls": one.calls,
            **_charged(one),
        }
        for one in found
    ]
    return _tagged(request, {"usage": rows})


async def dead_letters(request: Request) -> Response:
    """List the messages that their listeners could not handle, the latest first."""
    who, server = caller(request), host(request)
    most = _number(_query(request, {"most"}).get("most", str(PAGE)))
    found = await server.read(lambda reader: _own(reader, who).dead(most))
    return _tagged(request, {"letters": [_letter(one, who, server) for one in reversed(found)]})


def _own(reader: EngineReader, who: Caller) -> EngineReader | OwnedReader:
    """Limit a reader to what the caller sees."""
    return reader if who.sees is None else OwnedReader(reader, who.sees)


def _letter(one: DeadLetter, who: Caller, server: DoorHost) -> Mapping[str, Any]:
    code, _, why = one.reason.partition(": ")
    told = {
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
    if not who.oversees:
        return told
    told["principal"] = one.principal
    redact = server.rules.redact
    said = forms.redact_value(forms.payload_json(one.delivery.message, server.rules), redact)
    if who.redacted:
        return {**told, **forms.without_content(said, len(one.delivery.message))}
    return {**told, **said, "reason": redact(why)}


async def schedules(request: Request) -> Response:
    """List what the organism sends at set times. For operators and viewers."""
    who, server = caller(request), host(request)
    if who.sees is not None:
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


async def _page(
    server: DoorHost, who: Caller, conditions: Sequence[Condition], after: str, most: int
) -> ConversationPage:
    """Read a page of the conversations that the caller sees. Raises ValueError for a malformed cursor."""
    own = () if who.sees is None else (Condition("principal", STARTS if who.oversees else "=", who.sees),)
    chosen = ConversationFilter((*own, *conditions))
    return await server.read(lambda reader: reader.list_conversations(chosen, after, most))


async def _find(request: Request) -> ListedConversation:
    """Find the row of the conversation that the path names. Raises ProblemAnswer (404)."""
    who, server, key = caller(request), host(request), request.path_params["conversation"]
    with report_unknown():
        await server.find_conversation(who.sees, key)
        page = await _page(server, who, (Condition("id", "=", key),), "", 1)
        if not page.rows:
            raise LookupError(key)
    return page.rows[0]


def _row(listed: ListedConversation, who: Caller) -> Mapping[str, Any]:
    one = listed.summary
    told = {
        "conversation": one.id,
        "principal": one.principal if who.oversees else "",
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
    return {name: each for name, each in told.items() if each not in ("", None)}


def _charged(one: Any) -> Mapping[str, Any]:
    """Show a charge: tokens, and US dollars."""
    return {"tokens": one.tokens, "cost": one.money / _DOLLAR}


def _href(request: Request, conversation: str) -> str:
    return path_to(request, f"/v1/conversations/{quote(conversation)}")


def _query(request: Request, known: set[str]) -> dict[str, str]:
    """Return the parameters of a request. Raises ProblemAnswer for an unknown or long one."""
    found = dict(request.query_params)
    if found.keys() - known or any(len(each) > _LONGEST for each in found.values()):
        raise ProblemAnswer(
            400, f"The parameters are {', '.join(sorted(known))}, of at most {_LONGEST} characters."
        )
    return found


def _number(text: str, least: int = 1, most: int = MOST) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not digits or not least <= int(text) <= most:
        raise ProblemAnswer(400, f"A number is from {least} to {most}.")
    return int(text)


def _tagged(request: Request, found: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Build the answer with its ETag; 304 without a body if the client has it already."""
    body = forms.dump_json(found)
    told = {"etag": f'"{sha256(body).hexdigest()[:32]}"', **(headers or {})}
    known = [each.strip().removeprefix("W/") for each in header(request, b"if-none-match").split(",")]
    if told["etag"] in known or "*" in known:
        return Response(status_code=304, headers=told)
    return Response(body, headers=told, media_type=forms.JSON)
