"""The JSON and XML of requests, responses and events.

It only converts: a message that satisfies its schema is passed on, and the server decides. Pure.
"""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from agentserver.contract import Code, SystemError
from agentserver.core.messages import UNDECIDED, Delta, DeltaKind, Done, EventPlace, Progress, Reply
from agentserver.core.receipts import LONGEST
from agentserver.foreign_json.reading import JsonLimits, make_json_reader
from agentserver.gateways.http.parts import ProblemAnswer, by_code
from agentserver.payload.json.elements import convert_element, convert_value
from agentserver.payload.json.values import JsonRefusal, read_exactly
from agentserver.payload.names import local
from agentserver.wire import envelope
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import Approval
    from agentserver.payload.codec import Codec
    from agentserver.payload.json.values import JsonValue

JSON: Final = "application/json"
XML: Final = ("application/xml", "text/xml")

KEY: Final = f'^([!#-~]{{1,{LONGEST}}}|"[!#-~]{{1,{LONGEST}}}")$'
"""The pattern of an Idempotency-Key: visible characters of ASCII but quotes, in which all of it may stand."""

_BODIES: Final = make_json_reader(JsonLimits(bytes=sys.maxsize), Decimal)
"""Reads bodies, whose bytes the gate has limited."""

_NAMED: Final = 10
"""Names that a refusal lists."""

_PLACE: Final = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})")


def parse_place(text: str) -> EventPlace | None:
    """Parse the id of an event; None if it is malformed."""
    match = _PLACE.fullmatch(text)
    return None if match is None else EventPlace(int(match[1]), int(match[2]))


def format_place_id(at: EventPlace) -> str:
    """Format the id of an event: its version and its position."""
    return f"{at.version}-{at.position}"


# In


def media(content_type: str) -> str:
    """Return the media type of a body, without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def decode_message(
    rules: Rules, kind: str, data: bytes, to: str | None, name: str | None, may: Collection[str] | None
) -> bytes:
    """Convert a body to a message.

    Args:
        rules: with the codecs of the payloads.
        kind: its media type.
        data: the body.
        to: the target listener; None to route by the payload's root.
        name: of the payload, as in its schema; None if the listener takes only one.
        may: the only listeners that its sender may address; None for all.

    Raises ProblemAnswer: 415 for a type other than JSON and XML, 422 with corrections of a JSON value, 404 if no
    permitted listener takes such a payload.
    """
    if kind in XML:
        return data
    if kind != JSON:
        raise ProblemAnswer(
            415, "A message is application/json or application/xml.", {"accept-post": f"{JSON}, {XML[0]}"}
        )
    value = read_value(data)
    return encode_value(_find_codec(rules, to, name, may), value)


def read_value(data: bytes) -> JsonValue:
    """Read the JSON of a body. Raises ProblemAnswer."""
    value = read_exactly(_BODIES, data)
    if isinstance(value, JsonRefusal):
        raise _refuse_faulty(value)
    return value


def encode_value(codec: Codec, value: JsonValue) -> bytes:
    """Convert a JSON value to the message of a payload. Raises ProblemAnswer with the corrections."""
    element = convert_element(codec, value)
    if isinstance(element, JsonRefusal):
        raise _refuse_faulty(element)
    return canonical(element)


def _find_codec(rules: Rules, to: str | None, name: str | None, may: Collection[str] | None) -> Codec:
    """Find the codec of the intended payload."""
    found: dict[str, Codec] = {}
    takers: list[str] = []
    for listener in [to] if to is not None else rules.blueprint.listeners:
        own = [codec for codec in iter_codecs(rules, listener) if name is None or local(codec.name) == name]
        if own and (may is None or listener in may):
            takers.append(listener)
            found.update((codec.name, codec) for codec in own)
    if not found:
        raise by_code(Code.ROUTING)
    if len(found) > 1 and len(takers) > 1:
        raise ProblemAnswer(
            422, f"The message is for one of several listeners: name it with to=: {_list_some(takers)}."
        )
    if len(found) > 1:
        payloads = _list_some(map(local, found))
        raise ProblemAnswer(422, f"{takers[0]} takes several payloads: name one with payload=: {payloads}.")
    return next(iter(found.values()))


def _list_some(names: Iterable[str]) -> str:
    """List some of these names."""
    first = sorted(names)
    return ", ".join(first[:_NAMED]) + (", ..." if len(first) > _NAMED else "")


def iter_codecs(rules: Rules, listener: str) -> Iterator[Codec]:
    """Iterate over the codecs of a listener's payloads; empty for an unknown listener."""
    known = rules.blueprint.listeners.get(listener)
    for payload in () if known is None else known.payloads:
        yield rules.codecs.of(payload)


def _refuse_faulty(refusal: JsonRefusal) -> ProblemAnswer:
    """Build the answer for a value that is no such payload, with its faults."""
    faults = [{"pointer": each.pointer, "rule": each.rule} for each in refusal.faults]
    return by_code(Code.VALIDATION, faults=faults)


# Out


def encode_reply(reply: Reply, rules: Rules) -> Mapping[str, Any]:
    """Convert a reply to an object."""
    return {
        "type": "reply",
        "request": reply.request,
        "from": reply.sender,
        **encode_payload(reply.message, rules),
        "place": format_place_id(reply.place),
    }


def encode_payload(data: bytes, rules: Rules) -> Mapping[str, Any]:
    """Convert the payload of a message: its name and value, or its markup if it has no JSON form."""
    read = envelope.read_sent(data, rules.bounds.names)
    if isinstance(read, envelope.Malformed):
        return {"payload": ""}
    tag = str(read.payload.tag)
    codec = rules.codecs.for_root(tag)
    value = None if codec is None else convert_value(codec, read.payload)
    if codec is None or isinstance(value, JsonRefusal):
        return {"payload": local(tag), "xml": canonical(read.payload).decode()}
    return {"payload": local(tag), "value": value}


def extract_text(found: Mapping[str, Any]) -> str:
    """Extract the text of a converted payload: its only field if that is a text, else its JSON."""
    value = found.get("value")
    if not isinstance(value, dict):
        return str(found.get("xml", ""))
    texts = tuple(value.values())
    single = len(texts) == 1 and isinstance(texts[0], str)
    return texts[0] if single else json.dumps(value, ensure_ascii=False)


def encode_event(event: Reply | Done | Progress | Delta, rules: Rules) -> Mapping[str, Any]:
    """Convert an event to an object."""
    match event:
        case Reply():
            return encode_reply(event, rules)
        case Done():
            return {
                "type": "done",
                "request": event.request,
                "answered": event.answered,
                "place": format_place_id(event.place),
            }
        case Progress():
            return {"type": "progress", "request": event.request, "from": event.sender, "text": event.text}
        case Delta():
            return encode_delta(event)


def encode_delta(delta: Delta) -> Mapping[str, Any]:
    """Convert a piece of an answer to an object that says that it is not durable."""
    offset = {"offset": delta.offset} if delta.kind is DeltaKind.TEXT else {}
    named = {name: value for name, value in (("id", delta.id), ("name", delta.name)) if value}
    return {
        "type": "delta",
        "durable": False,
        "request": delta.request,
        "from": delta.sender,
        "kind": str(delta.kind),
        **named,
        **offset,
        "text": delta.text,
    }


def encode_waiting(one: Approval, rules: Rules) -> Mapping[str, Any]:
    """Convert an open approval to an object for its principal."""
    return {
        "approval": one.id,
        "to": one.delivery.to,
        "until": one.at + rules.blueprint.find_approval_time(one.delivery.to),
    }


def end_json(reason: str, after: EventPlace) -> Mapping[str, Any]:
    """Convert the end of a stream to an object."""
    return {"type": "end", "reason": reason, "after": format_place_id(after)}


def remove_without_content(found: Mapping[str, Any], size: int) -> Mapping[str, Any]:
    """Remove the content of a message from an object, for readers without access."""
    less = {name: each for name, each in found.items() if name not in ("value", "xml", "text")}
    return {**less, "redacted": size}


def redact_value(value: Any, redact: Callable[[str], str]) -> Any:
    """Redact all texts and names in a value."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, each in value.items():
            redacted = redact(name)
            while redacted in found:  # two names that are secrets are two values
                redacted += "'"
            found[redacted] = redact_value(each, redact)
        return found
    return [redact_value(each, redact) for each in value] if isinstance(value, list) else value


def make_problem(reply: Reply, rules: Rules) -> ProblemAnswer:
    """Convert a SystemError to its HTTP answer, with the same text."""
    members: dict[str, Any] = {"request": reply.request, "place": format_place_id(reply.place)}
    read = envelope.read_sent(reply.message, rules.bounds.names)
    codec = rules.codecs.of(SystemError)
    value = None if isinstance(read, envelope.Malformed) else convert_value(codec, read.payload)
    if not isinstance(value, dict):
        return by_code(Code.INTERNAL, **members)
    return by_code(Code(value["code"]), value["message"], retry=value["retry-allowed"], **members)


def dump_json(found: Mapping[str, Any]) -> bytes:
    """Encode an object as JSON."""
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), default=str).encode(
        "utf-8", "backslashreplace"
    )


def build_json_response(
    found: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build the answer that is an object as JSON."""
    return Response(dump_json(found), status, headers, media_type=JSON)


def dump_event(found: Mapping[str, Any]) -> bytes:
    """Encode an object as a server-sent event. JSON has no line break, so the data is one line."""
    at = found.get("place")
    name = f"id: {at}\n" if at is not None and at != format_place_id(UNDECIDED) else ""
    return f"event: {found['type']}\n{name}data: ".encode() + dump_json(found) + b"\n\n"
