"""HTTP routes of conversations: open, send, follow, confirm, cancel, end.

They are stateless: each request names its conversation.
"""

from __future__ import annotations

import re
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from agentserver.contract import Code
from agentserver.core import receipts
from agentserver.core.messages import UNDECIDED, Delta, Done, EventPlace, Progress, Reply
from agentserver.gateways.http import forms
from agentserver.gateways.http.options import MOST_WAIT
from agentserver.gateways.http.parts import (
    HEADS,
    DoorPart,
    ProblemAnswer,
    by_code,
    check_stored,
    explain_not_submitted,
    list_waiting,
    open_conversation,
    path_to,
    read_acting_caller,
    read_body,
    read_caller,
    read_header,
    read_host,
    read_query,
    report_unknown,
    server_stopping,
)
from agentserver.gateways.http.streams import EventStream, OverSocket, ServerSent
from agentserver.ports import EngineError, MessageConflictError, SubmitResult, WatchEnd, WatchStop
from agentserver.trace.traceparent import link_requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.requests import HTTPConnection, Request
    from starlette.websockets import WebSocket

    from agentserver.gateways.http.connections import HeldConnections
    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.http.streams import Item
    from agentserver.gateways.principals import Caller

CONVERSATION: Final = "/v1/conversations/{conversation}"

_ASYNC: Final = "respond-async"

REFUSED: Final = 5.0
"""Seconds for which the SystemError of a message that was refused may take to be read."""

_SENT: Final = frozenset({"payload", "wait"})
"""Parameters of a message to the listener that its path names."""

_ADDRESSED: Final = _SENT | {"to"}

_QUERY: Final = 300
"""Characters of a value in a query."""


def build_part(holding: HeldConnections, options: DoorOptions) -> DoorPart:
    """Build the routes of conversations."""
    these = ConversationRoutes(holding, options)
    return DoorPart(
        "conversations",
        (
            Route(f"{CONVERSATION}/messages", these.send, methods=["POST"]),
            Route(f"{CONVERSATION}/messages/{{listener}}", these.send, methods=["POST"]),
            Route(f"{CONVERSATION}/events", these.events, methods=["GET"]),
            WebSocketRoute(f"{CONVERSATION}/events", these.serve_socket),
            Route("/v1/conversations", these.open, methods=["POST"]),
            Route(CONVERSATION, these.end, methods=["DELETE"]),
            Route(f"{CONVERSATION}/requests/{{request}}", these.cancel, methods=["DELETE"]),
        ),
    )


@dataclass(frozen=True, slots=True)
class _SendOptions:
    """The parts of a message's request that are not its body."""

    to: str | None
    payload: str | None
    wait: float
    key: str | None
    xml: bool


@dataclass(frozen=True, slots=True)
class ConversationRoutes:
    """The handlers.

    Args:
        holding: the connections that are held.
        options: of the door.
    """

    holding: HeldConnections
    options: DoorOptions

    async def open(self, request: Request) -> Response:
        """Open a conversation, the same one for the same Idempotency-Key."""
        caller = read_acting_caller(request)
        if self.holding.stopping:
            raise server_stopping()
        key = await open_conversation(
            read_host(request), caller, read_idempotency_key(request), committed=True
        )
        return forms.build_json_response(
            {"conversation": key}, 201, {"location": path_to(request, f"/v1/conversations/{key}")}
        )

    async def send(self, request: Request) -> Response:
        """Hand in a message; answer with the first reply where it comes in time."""
        caller, server, key = (
            read_acting_caller(request),
            read_host(request),
            request.path_params["conversation"],
        )
        wanted = self._parse_options(request)
        kind = forms.media(read_header(request, b"content-type"))
        reader = partial(
            forms.decode_message,
            server.rules,
            kind,
            to=wanted.to,
            name=wanted.payload,
            may=caller.principal.may,
        )
        message = await read_body(request, reader)
        until = anyio.current_time() + wanted.wait
        if self.holding.stopping:
            raise server_stopping()
        try:
            await _confirm(request, caller)
            with link_requests(read_header(request, b"traceparent")):
                submitted = await server.submit(caller.name, key, message, wanted.to, request=wanted.key)
        except (MessageConflictError, LookupError) as error:
            raise explain_not_submitted(error, "Idempotency-Key") from None
        check_stored(submitted)
        found = await find_answer(server, caller, key, submitted)
        if found is None and (wanted.wait or submitted.code is not None):
            wait = max(until - anyio.current_time(), 0.0)  # another process may have taken seconds to take it
            found = await await_first_answer(request, self.holding, key, submitted, wait)
        return _answer(request, found, submitted, wanted)

    async def events(self, request: Request) -> ServerSent:
        """Stream a conversation's events: the existing ones, and further ones for ``wait=`` seconds."""
        wait = _find_seconds(request.query_params.get("wait"))
        stream = await self._stream(request, inf if wait is None else wait)
        return ServerSent(stream, self.holding, self.options.beat)

    async def serve_socket(self, socket: WebSocket) -> None:
        """Stream a conversation's events over a WebSocket."""
        stream = await self._stream(socket)
        principal, server, key = read_caller(socket), read_host(socket), socket.path_params["conversation"]

        async def confirm_taken(place: EventPlace) -> None:
            with suppress(LookupError):  # it may be another's, or over meanwhile
                await server.confirm(principal.name, key, place)

        await OverSocket(stream, self.holding, confirm_taken).run(socket)

    async def _stream(self, request: HTTPConnection, wait: float = inf) -> EventStream:
        principal, server, key = read_caller(request), read_host(request), request.path_params["conversation"]
        with report_unknown():
            await server.find_conversation(principal.sees, key)
            confirmed = await _confirm(request, principal)
        after = confirmed or _find_place(request.query_params.get("after")) or UNDECIDED
        describe = partial(_build_event_object, server.rules, principal.redacted)
        deltas = _flag(request.query_params.get("deltas")) and not principal.redacted
        events = partial(server.watch, principal.sees, key, after, deltas=deltas)
        return EventStream(principal, events, describe, after, wait)

    async def cancel(self, request: Request) -> Response:
        """End one request."""
        caller, server, key = (
            read_acting_caller(request),
            read_host(request),
            request.path_params["conversation"],
        )
        with report_unknown():
            found = await server.cancel(caller.sees, key, request.path_params["request"], by=caller.name)
        if not found:
            raise ProblemAnswer(404, "There is no such request, or it has finished.")
        return Response(status_code=204)

    async def end(self, request: Request) -> Response:
        """End a conversation."""
        caller = read_acting_caller(request)
        with report_unknown():
            await read_host(request).end(caller.sees, request.path_params["conversation"], by=caller.name)
        return Response(status_code=204)

    def _parse_options(self, request: Request) -> _SendOptions:
        """Parse the parameters and headers of a message. Raises ProblemAnswer for invalid ones."""
        query = read_query(request)
        listener = request.path_params.get("listener")
        if not query.keys() <= (_SENT if listener else _ADDRESSED):
            raise ProblemAnswer(
                400, "A message has payload= and wait=, and to= where its path names no listener."
            )
        to, payload = listener or _check_query(query.get("to")), _check_query(query.get("payload"))
        prefers = _parse_prefer(request)
        wait = _find_seconds(query.get("wait", prefers.get("wait")))
        if wait is None:
            wait = 0.0 if _ASYNC in prefers else self.options.wait
        accepted = read_header(request, b"accept")
        kind = forms.media(read_header(request, b"content-type"))
        wants_xml = bool(accepted) and any(one in accepted for one in forms.XML)
        xml = wants_xml or (kind in forms.XML and forms.JSON not in accepted)
        return _SendOptions(to, payload, min(wait, self.options.wait), read_idempotency_key(request), xml)


async def await_first_answer(
    request: Request, holding: HeldConnections, conversation: str, submitted: SubmitResult, wait: float
) -> Reply | Done | None:
    """Wait for the first event of a message; None if it does not come in time, or no wait is allowed."""
    principal = read_caller(request)
    if not holding.room(principal):
        return None
    seconds = wait if submitted.code is None else REFUSED
    with holding.hold(principal, request.scope, seconds), suppress(EngineError):
        return await follow_answer(read_host(request), principal, conversation, submitted)
    return None


async def find_answer(
    server: DoorHost, caller: Caller, conversation: str, submitted: SubmitResult
) -> Reply | Done | None:
    """Find the first answer to a message that was submitted before; None without one."""
    if not submitted.again:
        return None
    with suppress(EngineError, LookupError):
        return next(iter(await server.find_events(caller.name, conversation, submitted.request)), None)
    return None


async def follow_answer(
    server: DoorHost,
    caller: Caller,
    conversation: str,
    submitted: SubmitResult,
    show: Callable[[Delta], Awaitable[None]] | None = None,
) -> Reply | Done | None:
    """Wait for the first reply of a message, or its end; None if the conversation or the server ends first.

    ``show`` is called with each piece before it.
    """
    after: EventPlace | None = submitted.after
    while after is not None:
        found: Reply | Done | WatchStop | None
        if show is None:
            found = await server.first_event(caller.name, conversation, submitted.request, after)
        else:
            found = await _show_until_first(
                server.watch(caller.name, conversation, after, deltas=True), submitted.request, show
            )
        if not isinstance(found, WatchStop):
            return found
        after = found.after if found.reason is WatchEnd.LAGGED else None
    return None


async def _show_until_first(
    items: AsyncIterator[Item], request: str, show: Callable[[Delta], Awaitable[None]]
) -> Reply | Done | WatchStop | None:
    """Show the pieces before the first reply of a request, or its end; else wait for the stop of the watch."""
    async with aclosing(items) as events:  # type: ignore[type-var]
        async for event in events:
            if isinstance(event, WatchStop):
                return event
            if isinstance(event, Progress) or event.request != request:
                continue
            if not isinstance(event, Delta):
                return event
            await show(event)
    return None


def _build_event_object(
    rules: Any,
    redacted: bool,  # noqa: FBT001 - within this module
    event: Reply | Done | Progress | Delta,
) -> Mapping[str, Any]:
    found = forms.encode_event(event, rules)
    return (
        forms.remove_without_content(found, len(event.message) if isinstance(event, Reply) else 0)
        if redacted
        else found
    )


async def _confirm(request: HTTPConnection, caller: Caller) -> EventPlace | None:
    """Count as taken what the caller says it has (Last-Event-ID), and give that place. Raises LookupError."""
    place = _find_place(read_header(request, b"last-event-id") or None)
    if place is not None:
        with suppress(
            *((LookupError,) if caller.oversees else ())
        ):  # an operator confirms nothing of another's
            await read_host(request).confirm(caller.name, request.path_params["conversation"], place)
    return place


def _find_place(text: str | None) -> EventPlace | None:
    if text is None:
        return None
    found = forms.parse_place(text)
    if found is None:
        raise ProblemAnswer(400, "The id of an event is VERSION-POSITION.")
    return found


def read_idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key, without the quotes of a structured field."""
    if b"idempotency-key" not in request.scope[HEADS]:
        return None
    value = read_header(request, b"idempotency-key")
    if re.fullmatch(forms.KEY, value) is None:
        bounds = f"1 to {receipts.LONGEST} visible characters of ASCII, without quotes and spaces"
        raise ProblemAnswer(400, f"An Idempotency-Key has {bounds}.")
    return value.strip('"')


def _parse_prefer(request: Request) -> Mapping[str, str]:
    """Parse the Prefer header (RFC 7240)."""
    found: dict[str, str] = {}
    for each in read_header(request, b"prefer").split(","):
        name, _, value = each.partition(";")[0].partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    return found


def _find_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_WAIT))):
        raise ProblemAnswer(400, f"wait= is a whole number of seconds from 0 to {MOST_WAIT}.")
    return float(text)


def _flag(text: str | None) -> bool:
    if text not in (None, "true", "false"):
        raise ProblemAnswer(400, "deltas= is true or false.")
    return text == "true"


def _check_query(text: str | None) -> str | None:
    if text is not None and not 0 < len(text) <= _QUERY:
        raise ProblemAnswer(400, f"A value has 1 to {_QUERY} characters.")
    return text


def _accept(request: Request, conversation: str, submitted: SubmitResult) -> Response:
    server = read_host(request)
    place = forms.format_place_id(submitted.after)
    headers = {
        "location": path_to(request, f"/v1/conversations/{conversation}/events?after={place}"),
        "preference-applied": _ASYNC,
        **_build_headers(submitted),
    }
    approvals = list_waiting(server, conversation, submitted.request)
    waits = [forms.encode_waiting(one, server.rules) for one in approvals]
    found = {"request": submitted.request, "after": place, "again": submitted.again, "waits": waits}
    return forms.build_json_response(found, 202, headers)


def _answer(
    request: Request, found: Reply | Done | None, submitted: SubmitResult, wanted: _SendOptions
) -> Response:
    server, conversation = read_host(request), request.path_params["conversation"]
    headers = _build_headers(submitted, found)
    match found:
        case None if isinstance(submitted.code, Code):
            raise by_code(submitted.code, request=submitted.request).with_headers(headers)
        case None:
            return _accept(request, conversation, submitted)
        case Done():
            return Response(status_code=204, headers=headers)
        case Reply(error=True):
            raise forms.make_problem(found, server.rules).with_headers(headers)
        case Reply() if wanted.xml:
            return Response(found.message, headers=headers, media_type=forms.XML[0])
        case Reply():
            value = {**forms.encode_reply(found, server.rules), "again": submitted.again}
            return forms.build_json_response(value, headers=headers)


def _build_headers(submitted: SubmitResult, event: Reply | Done | None = None) -> Mapping[str, str]:
    """Build the headers of the answer to a message."""
    headers = {
        "agentserver-request": submitted.request,
        "agentserver-again": "true" if submitted.again else "false",
    }
    return headers if event is None else {**headers, "agentserver-place": forms.format_place_id(event.place)}
