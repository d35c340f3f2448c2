"""A request for a handoff, as an agent states it."""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.foreign_json.reading import JsonLimits
from agentserver.foreign_json.reading import parse_json as read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HandoffRequest", "read_text"]

TYPE: Final = "handoff_request"
"""The value of the member ``type`` of a request, and the name of the tool that does the same."""
LONGEST: Final = 64 * 1024
"""Characters of a request."""
LIMITS: Final = JsonLimits(bytes=4 * LONGEST)
"""The limits of its JSON text."""


class RequestRefusal(StrEnum):
    """The reasons to refuse a handoff."""

    INVALID_JSON = "invalid_json"  # no JSON object, or one with a member twice
    OVER_BOUND = "over_bound"  # larger or deeper than a request may be
    NESTED_REQUEST = "nested_request"  # inside another document: quoted, not asked
    TARGET_NOT_ALLOWLISTED = "target_not_allowlisted"
    NOT_A_PEER = "not_a_peer"  # the sender may not reach the target
    SCHEMA = "schema"  # not the form of a request
    LEGACY_PAYLOAD = "legacy_payload"  # the older form, without an intent
    UNKNOWN_INTENT = "unknown_intent"
    TARGET_NOT_OF_INTENT = "target_not_of_intent"  # allowlisted, but not for this
    PARAMS_SCHEMA = "params_schema"  # a parameter is missing, unknown or not of its type
    WORD_BUDGET = "word_budget"  # a parameter spells a sentence
    NO_DEPLOYED_AGENT_ID = "no_deployed_agent_id"
    FORGED_TASK = "forged_task"  # a task that the server did not write
    SUPERSEDED = "superseded"  # the caller takes one handoff, and another came first
    DELIVERY_FAILED = "delivery_failed"  # accepted, but the target could not be reached


class HandoffRequest(NamedTuple):
    """One attempt to hand work over.

    Args:
        target: the listener that is asked, as the sender put it.
        intent: the intent, as the sender put it.
        params: the parameters, in the order of the request.
        event: free text in addition to the parameters.
        fault: why the rest could not be read, or None.
        raw_len: characters of the whole request.
        raw_sha256: digest of the whole request in hexadecimal.
        note: the free text among the parameters, as far as it is known to be that.
    """

    target: str | None = None
    intent: str | None = None
    params: tuple[tuple[str, object], ...] = ()
    event: str = ""
    fault: RequestRefusal | None = None
    raw_len: int = 0
    raw_sha256: str = ""
    note: str = ""


def digest(text: str) -> str:
    """SHA-256 in hexadecimal; text that UTF-8 cannot carry has one too."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def make_broken_request(raw: str, reason: RequestRefusal) -> HandoffRequest:
    """Return an attempt with nothing readable."""
    return HandoffRequest(fault=reason, raw_len=len(raw), raw_sha256=digest(raw))


def read_text(raw: str) -> HandoffRequest:
    """Return the request that a JSON text is."""
    if len(raw) > LONGEST:
        return make_broken_request(raw, RequestRefusal.OVER_BOUND)
    found = decode(raw)
    return make_broken_request(raw, RequestRefusal.INVALID_JSON) if found is None else read(found, raw)


def decode(raw: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None if it is not one, has a member twice, or lone surrogates."""
    found = read_json(raw, LIMITS)
    return found if isinstance(found, dict) else None


def read(found: Mapping[str, object], raw: str) -> HandoffRequest:
    """Return the request in a JSON object of type ``handoff_request``; ``raw`` is its text."""
    target = found.get("target_agent")
    request = HandoffRequest(
        target if isinstance(target, str) else None, raw_len=len(raw), raw_sha256=digest(raw)
    )
    payload = found.get("payload")
    if found.keys() - {"type", "target_agent", "payload"} or not isinstance(payload, dict):
        return _faulty(request, RequestRefusal.SCHEMA)
    if "intent" not in payload and payload.get("event") and not payload.keys() - {"event", "context_ref"}:
        return _older(request, payload)
    return _check_payload(request, payload)


def from_tool(arguments: Mapping[str, object], raw: str) -> HandoffRequest:
    """Return the request in the arguments of a tool call: ``target_agent`` and the members of a payload."""
    if len(raw) > LONGEST:
        return make_broken_request(raw, RequestRefusal.OVER_BOUND)
    payload = {name: value for name, value in arguments.items() if name != "target_agent"}
    return read({"type": TYPE, "target_agent": arguments.get("target_agent"), "payload": payload}, raw)


def _check_payload(request: HandoffRequest, payload: Mapping[str, object]) -> HandoffRequest:
    intent, params, event = payload.get("intent"), payload.get("params"), payload.get("event", "")
    shaped = isinstance(intent, str) and isinstance(params, dict) and isinstance(event, str)
    if not shaped or payload.keys() - {"intent", "params", "event"}:
        return _faulty(request, RequestRefusal.SCHEMA)
    assert isinstance(intent, str)
    assert isinstance(params, dict)
    return HandoffRequest(
        request.target, intent, tuple(params.items()), str(event), None, request.raw_len, request.raw_sha256
    )


def _older(request: HandoffRequest, payload: Mapping[str, object]) -> HandoffRequest:
    """Return the form without an intent: its texts are kept, for an organism that maps it to one."""
    texts = [payload.get(name, "") for name in ("event", "context_ref")]
    if not all(isinstance(text, str) for text in texts):
        return _faulty(request, RequestRefusal.SCHEMA)
    event = "\n".join(str(text) for text in texts if text)
    return HandoffRequest(
        request.target, None, (), event, RequestRefusal.LEGACY_PAYLOAD, request.raw_len, request.raw_sha256
    )


def _faulty(request: HandoffRequest, reason: RequestRefusal) -> HandoffRequest:
    return HandoffRequest(
        request.target, fault=reason, raw_len=request.raw_len, raw_sha256=request.raw_sha256
    )
