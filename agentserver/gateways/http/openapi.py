"""The OpenAPI 3.1 description of the door, from the schemas of the listeners that a caller may address. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from agentserver.gateways.http.forms import JSON, KEY, XML, iter_codecs
from agentserver.gateways.http.lists import MOST, PAGE
from agentserver.gateways.http.options import MOST_WAIT
from agentserver.gateways.http.parts import PROBLEM
from agentserver.history.filters import STATES
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from agentserver.core.guard import Rules

VERSION: Final = "1"

_TOLD: Final = {
    400: "An unknown header or parameter.",
    401: "No token was shown, or an unknown one.",
    402: "A budget is spent.",
    403: "It is not permitted.",
    404: "It does not exist, or belongs to another principal.",
    405: "The path takes another method.",
    408: "The body did not come in time.",
    409: "Another message waits than the one that was shown.",
    410: "The conversation is over.",
    413: "The body is too large.",
    415: "The body is of another type than those that are taken.",
    421: "The server is not reached by this name.",
    422: "The body does not satisfy its schema; faults says where.",
    429: "Too much at once: Retry-After says when to come again.",
    502: "A listener failed.",
    503: "The server stops, or cannot keep anything at present.",
    504: "A listener did not answer in time.",
}

_ALWAYS: Final = (401, 403, 421, 429)
_BODY: Final = (400, 408, 413, 422)
_ONE: Final = {"name": "conversation", "in": "path", "required": True, "schema": {"type": "string"}}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": KEY},
    "description": "The caller's own name for this request: sent again, it is answered as the first was.",
}
_PLACE: Final = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})$"}
_LAST: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": _PLACE,
    "description": "Everything up to this event was taken.",
}


def describe(rules: Rules, name: str, may: Collection[str] | None, url: str = "/") -> Mapping[str, Any]:
    """Describe the door for a caller.

    Args:
        rules: with the listeners that take payloads.
        name: of the organism.
        may: the only listeners that the caller may address; None for all.
        url: at which the caller reaches the door.
    """
    listeners = [each for each in rules.blueprint.listeners if may is None or each in may]
    schemas, payloads = _payloads(rules, listeners)
    bodies = {f"listener.{each}": _build_one_of(names) for each, names in payloads.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": VERSION},
        "servers": [{"url": url}],
        "security": [{"token": []}],
        "paths": {
            "/v1/conversations": {"get": _list(), "post": _open()},
            "/v1/conversations/{conversation}": {"get": _describe_conversation(), "delete": _end()},
            "/v1/conversations/{conversation}/history": {"get": _describe_history()},
            "/v1/conversations/{conversation}/usage": {"get": _describe_usage_of_one()},
            "/v1/usage": {"get": _describe_usage()},
            "/v1/dead-letters": {"get": _describe_letters()},
            "/v1/schedules": {"get": _describe_schedules()},
            "/v1/conversations/{conversation}/messages": {"post": _send(listeners, bodies)},
            **{
                f"/v1/conversations/{{conversation}}/messages/{quote(each)}": {"post": _send_to(each, rules)}
                for each in payloads
            },
            "/v1/conversations/{conversation}/events": {"get": _describe_events()},
            "/v1/conversations/{conversation}/requests/{request}": {"delete": _cancel()},
            "/v1/conversations/{conversation}/trace": {"get": _describe_trace()},
            "/v1/approvals": {"get": _describe_approvals()},
            "/v1/approvals/{approval}": {"get": _describe_approval(), "post": _answer()},
            "/healthz": {"get": _describe_probe("health", "The process answers.", ())},
            "/readyz": {"get": _describe_probe("ready", "New messages are taken.", (503,))},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**_OBJECTS, **schemas, **bodies},
        },
    }


def _payloads(rules: Rules, listeners: Sequence[str]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Collect the schemas of all payloads by name, and those of each listener."""
    schemas: dict[str, Any] = {}
    names: dict[str, str] = {}
    takers = [(listener, codec) for listener in listeners for codec in iter_codecs(rules, listener)]
    for _, codec in takers:
        schema = json_schema(codec)
        if codec.name not in names and not isinstance(schema, JsonRefusal):
            key = names[codec.name] = _free(f"payload.{local(codec.name)}", schemas)
            schemas[key] = _embed(schema, f"#/components/schemas/{key}")
    payloads: dict[str, list[str]] = {}
    for listener, codec in takers:
        if codec.name in names:
            payloads.setdefault(listener, []).append(names[codec.name])
    return schemas, payloads


def _free(name: str, known: Mapping[str, Any]) -> str:
    """Return the name, with the first free number if it is taken."""
    number = 1
    free = name
    while free in known:
        number += 1
        free = f"{name}.{number}"
    return free


def _embed(schema: Any, at: str) -> Any:
    """Embed a schema in the description: its references become relative to its place."""
    if isinstance(schema, dict):
        return {
            name: f"{at}{each[1:]}" if name == "$ref" and isinstance(each, str) else _embed(each, at)
            for name, each in schema.items()
            if name != "$schema"
        }
    return [_embed(each, at) for each in schema] if isinstance(schema, list) else schema


def _build_ref(name: str) -> Mapping[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _is(name: str, description: str, **members: Any) -> Mapping[str, Any]:
    return {"description": description, "content": {JSON: {"schema": _build_ref(name)}}, **members}


def _build_statuses(*codes: int) -> Mapping[str, Any]:
    return {
        str(code): {"description": _TOLD[code], "content": {PROBLEM: {"schema": _build_ref("Problem")}}}
        for code in sorted(codes)
    }


def _describe_operation(
    name: str,
    summary: str,
    responses: Mapping[str, Any],
    codes: Sequence[int] = (),
    parameters: Sequence[Mapping[str, Any]] = (),
    **members: Any,
) -> Mapping[str, Any]:
    """Describe one operation: its responses, and the statuses of its problems besides those of every request."""
    return {
        "operationId": name,
        "summary": summary,
        **({"parameters": [*parameters]} if parameters else {}),
        "responses": {**responses, **_build_statuses(*_ALWAYS, *codes)},
        **members,
    }


def _open() -> Mapping[str, Any]:
    one = {"parameters": {"conversation": "$response.body#/conversation"}}
    links = {
        name: {"operationId": name, **one}
        for name in ("send", "events", "end", "trace", "conversation", "history")
    }
    opened = {"201": _is("Conversation", "It is open.", links=links)}
    return _describe_operation("open", "Open a conversation.", opened, (400, 413, 503), [_KEY])


_KNOWN: Final = {
    "name": "If-None-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "ETags of answers that the client has: 304 if one of them is current.",
}
_ROW_LIMIT: Final = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": MOST},
    "description": f"Greatest number of rows; {PAGE} when left out.",
}


def _read(
    name: str,
    summary: str,
    schema: str,
    codes: Sequence[int] = (),
    parameters: Sequence[Mapping[str, Any]] = (),
    **members: Any,
) -> Mapping[str, Any]:
    """Describe an operation that reads, whose answer has an ETag."""
    tag = {"ETag": {"schema": {"type": "string"}}}
    answers = {
        "200": _is(schema, "The present state.", headers=tag, **members),
        "304": {"description": "The client has it already."},
    }
    return _describe_operation(name, summary, answers, (*codes, 503), [*parameters, _KNOWN])


def _list() -> Mapping[str, Any]:
    filter_parameter = {"name": "where", "in": "query", "schema": {"type": "string", "maxLength": 1000}}
    filter_parameter |= {"description": "A filter, as that of agentserver conversations --where."}
    after = {"name": "after", "in": "query", "schema": {"type": "string", "maxLength": 1000}}
    after |= {"description": "The cursor of the previous page."}
    one = {"parameters": {"conversation": "$response.body#/conversations/0/conversation"}}
    links = {name: {"operationId": name, **one} for name in ("conversation", "history")}
    summary = "The conversations that the caller sees, the last opened first."
    return _read(
        "conversations", summary, "Conversations", (400,), [filter_parameter, after, _ROW_LIMIT], links=links
    )


def _describe_conversation() -> Mapping[str, Any]:
    summary = "One conversation, with its open requests and what they wait for."
    links = {name: {"operationId": name, "parameters": _HERE} for name in ("history", "usage.one", "end")}
    return _read("conversation", summary, "ConversationState", (404,), [_ONE], links=links)


def _describe_history() -> Mapping[str, Any]:
    return _read("history", "The messages that its principal sent and received.", "History", (404,), [_ONE])


def _describe_usage_of_one() -> Mapping[str, Any]:
    return _read("usage.one", "The charges of one conversation.", "Charge", (404,), [_ONE])


def _describe_usage() -> Mapping[str, Any]:
    since = {"name": "since", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 10**12}}
    since |= {"description": "Seconds since the epoch."}
    summary = "The charges of the conversations that the caller sees, by listener and model."
    return _read("usage", summary, "Usage", (400,), [since])


def _describe_letters() -> Mapping[str, Any]:
    summary = "The messages that their listeners could not handle, the latest first."
    return _read("letters", summary, "DeadLetters", (400,), [_ROW_LIMIT])


def _describe_schedules() -> Mapping[str, Any]:
    summary = "What the organism sends at set times. For operators and viewers."
    return _read("schedules", summary, "Schedules")


_PAYLOAD: Final = {
    "name": "payload",
    "in": "query",
    "schema": {"type": "string", "minLength": 1, "maxLength": 300},
    "description": "The payload that the JSON is, where several are taken.",
}
_WAIT: Final = {
    "name": "wait",
    "in": "query",
    "schema": {"type": "integer", "minimum": 0, "maximum": MOST_WAIT},
    "description": "Seconds for which an answer is waited for.",
}
_PREFER: Final = {
    "name": "Prefer",
    "in": "header",
    "schema": {"type": "string", "enum": ["respond-async", "wait=1"]},
}
_HERE: Final = {"conversation": "$request.path.conversation"}


def _build_one_of(names: Sequence[str]) -> Mapping[str, Any]:
    """Build the schema of a body that is one of some payloads."""
    return _build_ref(names[0]) if len(names) == 1 else {"anyOf": [_build_ref(name) for name in names]}


def _send(listeners: Sequence[str], bodies: Mapping[str, Any]) -> Mapping[str, Any]:
    to: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 300}
    to |= {"examples": list(listeners)[:20]} if listeners else {}
    target = {"name": "to", "in": "query", "schema": to, "description": "The listener."}
    body = {"anyOf": [_build_ref(name) for name in bodies]} if bodies else {}
    return _describe_message(
        "send", "Send a message to the listener named by to=, or else by its payload.", body, target
    )


def _send_to(listener: str, rules: Rules) -> Mapping[str, Any]:
    about = rules.blueprint.listeners[listener].description
    body = _build_ref(f"listener.{listener}")
    return {
        **_describe_message(f"send.{listener}", f"Send a message to {listener}.", body),
        "description": about,
    }


def _describe_message(
    name: str, summary: str, body: Mapping[str, Any], *parameters: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Describe the request of a message, and its answers."""
    content = {JSON: {"schema": body}, XML[0]: {"schema": {"type": "string"}}}
    return _describe_operation(
        name,
        summary,
        _describe_accepted(),
        (*_BODY, 402, 404, 410, 415, 502, 503, 504),
        [_ONE, *parameters, _PAYLOAD, _WAIT, _KEY, _LAST, _PREFER],
        requestBody={"required": True, "content": content},
    )


def _describe_accepted() -> Mapping[str, Any]:
    """Describe the answers to an accepted message."""
    request = {**_HERE, "request": "$response.body#/request"}
    links = {"cancel": {"operationId": "cancel", "parameters": request}}
    again = {name: {"operationId": name, "parameters": _HERE} for name in ("events", "trace", "end")}
    content = {JSON: {"schema": _build_ref("Reply")}, XML[0]: {"schema": {"type": "string"}}}
    return {
        "200": {"description": "The first reply.", "content": content, "links": again},
        "202": _is("Accepted", "It is accepted, and still running.", links=links),
        "204": {"description": "It finished without an answer."},
    }


def _describe_events() -> Mapping[str, Any]:
    after = {"name": "after", "in": "query", "schema": _PLACE, "description": "Begin after this event."}
    deltas = {
        "name": "deltas",
        "in": "query",
        "schema": {"type": "boolean"},
        "description": "Also pieces of answers that are not committed yet.",
    }
    waits = "Seconds that the stream waits for further events; no end when left out."
    content = {"text/event-stream": {"schema": _build_ref("Event")}}
    return _describe_operation(
        "events",
        "The events of a conversation as they come: Server-sent events, or a WebSocket.",
        {"200": {"description": "The events.", "content": content}},
        (400, 404, 503),
        [_ONE, _LAST, after, deltas, {**_WAIT, "description": waits}],
    )


def _cancel() -> Mapping[str, Any]:
    request = {"name": "request", "in": "path", "required": True, "schema": {"type": "string"}}
    ended = {"204": {"description": "It is ended."}}
    summary = "End one request, with all that runs for it."
    return _describe_operation("cancel", summary, ended, (404, 503), [_ONE, request])


def _end() -> Mapping[str, Any]:
    ended = {"204": {"description": "It is over."}}
    return _describe_operation(
        "end", "End a conversation, with all that runs in it.", ended, (404, 503), [_ONE]
    )


def _describe_trace() -> Mapping[str, Any]:
    summary = "The records of a conversation, as far as the caller's role is shown them."
    return _describe_operation("trace", summary, {"200": _is("Trace", "The records.")}, (404, 503), [_ONE])


def _describe_approvals() -> Mapping[str, Any]:
    summary = "The messages that wait for a person. For operators and viewers."
    return _describe_operation(
        "approvals", summary, {"200": _is("Approvals", "The messages, the oldest first.")}
    )


_WHICH: Final = {"name": "approval", "in": "path", "required": True, "schema": {"type": "string"}}


def _describe_approval() -> Mapping[str, Any]:
    summary = "One approval, with the origins of its values. For operators and viewers."
    return _describe_operation(
        "approval", summary, {"200": _is("Approval", "The message.")}, (404,), [_WHICH]
    )


def _answer() -> Mapping[str, Any]:
    decided = {"204": {"description": "It is decided."}}
    body = {"required": True, "content": {JSON: {"schema": _build_ref("Answer")}}}
    summary = "Decide about a message that waits. For operators."
    return _describe_operation(
        "answer", summary, decided, (*_BODY, 404, 409, 503), [_WHICH], requestBody=body
    )


def _describe_probe(name: str, summary: str, codes: Sequence[int]) -> Mapping[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "security": [],
        "responses": {"200": _is("Status", summary), **_build_statuses(*codes)},
    }


def _object(needed: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    return {"type": "object", "required": list(needed), "properties": {**needed, **(optional or {})}}


_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_NUMBER: Final = {"type": "number"}
_AGAIN: Final = {
    "type": "boolean",
    "description": "Whether the message was there before, under the same key.",
}
_WAITS: Final = {
    "type": "array",
    "description": "The messages of this request that wait for a person's approval.",
    "items": _object({"approval": _TEXT, "to": _TEXT, "until": _NUMBER}),
}
_FAULT: Final = _object({"pointer": _TEXT, "rule": _TEXT})
_QUESTION: Final = _object({"guard": _TEXT}, {"why": _TEXTS})
_SAID: Final = {"value": {}, "xml": _TEXT, "redacted": {"type": "integer"}}

_APPROVAL: Final = _object(
    {
        **dict.fromkeys(("id", "conversation", "request", "from", "to", "payload", "digest"), _TEXT),
        "at": _NUMBER,
        "until": _NUMBER,
        "questions": {"type": "array", "items": _QUESTION},
    },
    _SAID,
)

_ORIGINS: Final = _object(
    {
        "values": {
            "type": "array",
            "items": _object({"argument": _TEXT, "value": _TEXT, "kind": _TEXT, "words": _TEXT}),
        },
        "answered": {"type": "array", "items": {"type": "object"}},
        "request": _TEXT,
        "more": {"type": "integer"},
    }
)

_RECORD: Final = _object(
    {"event": _TEXT, "at": _NUMBER},
    {
        **dict.fromkeys(("thread", "from", "to", "payload", "code", "delivery", "request"), _TEXT),
        "hop": {"type": "integer"},
        "took": _NUMBER,
        "detail": _TEXTS,
        "message": {"type": "object"},
    },
)

_COST: Final = {"tokens": {"type": "integer"}, "cost": _NUMBER}

_ROW: Final = _object(
    {
        "conversation": _TEXT,
        "state": {"enum": [*STATES]},
        "opened": _NUMBER,
        "touched": _NUMBER,
        **{key: {"type": "integer"} for key in ("steps", "waiting", "unread")},
        **_COST,
    },
    {"principal": _TEXT, "closed": _NUMBER, "due": _NUMBER, "href": _TEXT},
)

_REQUESTS: Final = {"type": "array", "items": _object({"request": _TEXT, "pending": {"type": "integer"}})}

_STATE: Final = _object(
    {
        "requests": _REQUESTS,
        "waits": _WAITS,
        "links": {"type": "object", "additionalProperties": _TEXT},
    }
)

_SHOWN: Final = _object(
    {"event": _TEXT, "at": _NUMBER},
    {**dict.fromkeys(("request", "from", "to", "payload", "code"), _TEXT), **_SAID},
)

_LETTER: Final = _object(
    {
        **dict.fromkeys(("delivery", "conversation", "request", "from", "to", "payload", "code"), _TEXT),
        "at": _NUMBER,
        "open": {"type": "boolean"},
    },
    {"principal": _TEXT, "reason": _TEXT, **_SAID},
)

_SCHEDULE: Final = _object({**dict.fromkeys(("name", "to", "recurrence", "paused"), _TEXT), "due": _NUMBER})

_CHARGES: Final = _object(
    {"listener": _TEXT, "model": _TEXT, "calls": {"type": "integer"}, **_COST}, {"principal": _TEXT}
)

_OBJECTS: Final[Mapping[str, Any]] = {
    "Accepted": _object({"request": _TEXT, "after": _PLACE, "again": _AGAIN, "waits": _WAITS}),
    "Answer": {
        **_object({"digest": _TEXT, "answer": {"enum": ["once", "always", "deny"]}}),
        "additionalProperties": False,
    },
    "Approval": {
        "allOf": [_APPROVAL, _object({}, {"origins": {"anyOf": [_ORIGINS, {"type": "null"}]}})],
    },
    "Approvals": _object({"approvals": {"type": "array", "items": _APPROVAL}}),
    "Charge": _object(_COST),
    "Conversation": _object({"conversation": _TEXT}),
    "ConversationState": {"allOf": [_ROW, _STATE]},
    "Conversations": _object({"conversations": {"type": "array", "items": _ROW}, "after": _TEXT}),
    "DeadLetters": _object({"letters": {"type": "array", "items": _LETTER}}),
    "Event": _object(
        {"event": {"enum": ["reply", "done", "progress", "delta", "end"]}, "data": _TEXT}, {"id": _PLACE}
    ),
    "History": _object(
        {"conversation": _TEXT, "events": {"type": "array", "items": _SHOWN}, "cut": {"type": "boolean"}}
    ),
    "Problem": _object(
        {"title": _TEXT, "status": {"type": "integer"}},
        {
            "detail": _TEXT,
            "code": _TEXT,
            "retry": {"type": "boolean"},
            "request": _TEXT,
            "place": _PLACE,
            "faults": {"type": "array", "items": _FAULT},
        },
    ),
    "Reply": _object(
        {
            "type": {"const": "reply"},
            "request": _TEXT,
            "from": _TEXT,
            "payload": _TEXT,
            "place": _PLACE,
            "again": _AGAIN,
        },
        _SAID,
    ),
    "Schedules": _object({"schedules": {"type": "array", "items": _SCHEDULE}}),
    "Status": _object({"status": _TEXT}),
    "Trace": _object({"records": {"type": "array", "items": _RECORD}}),
    "Usage": _object({"usage": {"type": "array", "items": _CHARGES}}),
}
