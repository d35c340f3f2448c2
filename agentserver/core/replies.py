"""What a handler returned, as drafts of messages: encoded, parsed again and valid, or refused.

Owns the meaning of HandlerResponse, sequences, None and deprecated bytes. Refuses to know where a draft may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Code, HandlerResponse
from agentserver.core import repair
from agentserver.core.codec import Unencodable
from agentserver.core.envelope import Malformed, read_payload
from agentserver.core.messages import Failed, Written
from agentserver.core.refusals import Refusal
from agentserver.core.xmlify import PayloadError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lxml import etree

    from agentserver.contract import Target
    from agentserver.core.codec import Codec, Codecs
    from agentserver.core.envelope import Bounds


class Draft(NamedTuple):
    """A valid payload on its way out.

    Args:
        to: the target as the handler named it; None when the root of the payload decides.
        root: name of the payload element, ``{namespace}local``.
        markup: the payload element as text.
        element: the same, parsed.
    """

    to: str | Target | None
    root: str
    markup: str
    element: etree._Element


class Drafts(NamedTuple):
    """Everything one invocation wants to send, in order, and how deprecated text was repaired."""

    drafts: tuple[Draft, ...] = ()
    repairs: tuple[str, ...] = ()
    deprecated: bool = False


def normalise(value: object, codecs: Codecs, bounds: Bounds) -> Drafts | Refusal | Failed:
    """Read the result of a handler.

    A payload that its schema refuses is the sender's to correct and gives a Refusal; a value that is no result at all
    is a defect of the handler and gives Failed.
    """
    if value is None:
        return Drafts()
    if isinstance(value, bytes):
        return _from_text(value, codecs, bounds)
    if isinstance(value, HandlerResponse):
        one = _from_response(value, codecs, bounds)
        return Drafts((one,)) if isinstance(one, Draft) else one
    if not isinstance(value, list | tuple):
        return Failed(Code.INTERNAL, f"the handler returned {type(value).__name__}, not a HandlerResponse")
    return _collect(_from_response(response, codecs, bounds) for response in value)


def recorded(
    value: object, read: Drafts | Refusal | Failed, codecs: Codecs, bounds: Bounds
) -> bytes | tuple[Written | Refusal | Failed, ...]:
    """The form of a handler's result that can be kept: ``reread`` gives ``read`` again for it, under equal rules."""
    if isinstance(value, bytes):
        return value
    if isinstance(read, Drafts):
        return tuple([Written(one.to, one.markup) for one in read.drafts])
    responses = value if isinstance(value, list | tuple) else (value,)
    found: list[Written | Refusal | Failed] = []
    for response in responses:
        found.append(_written(response, codecs, bounds) or read)
        if not isinstance(found[-1], Written):
            break
    return tuple(found)


def reread(
    value: bytes | tuple[Written | Refusal | Failed, ...], codecs: Codecs, bounds: Bounds
) -> Drafts | Refusal | Failed:
    """Read a result that was kept. A payload whose class is gone is a defect; one that is invalid now, a refusal."""
    if isinstance(value, bytes):
        return _from_text(value, codecs, bounds)
    return _collect(_from_written(one, codecs, bounds) if isinstance(one, Written) else one for one in value)


def draft(
    payload: object, to: str | Target | None, codecs: Codecs, bounds: Bounds
) -> Draft | Refusal | Failed:
    """Encode one payload, read it back and validate it."""
    try:
        codec = codecs.of(type(payload))
    except PayloadError as error:
        return Failed(Code.INTERNAL, str(error))
    target = to if isinstance(to, str) else ""
    try:
        markup = codec.encode(payload)
    except Unencodable as error:
        return Refusal(Code.VALIDATION, str(error), target, (str(error),))
    element = read_payload(markup.encode(), bounds)
    if isinstance(element, Malformed):
        return Refusal(Code.VALIDATION, element.detail, target, (str(element.kind),))
    return check(element, markup, to, codec)


def check(element: etree._Element, markup: str, to: str | Target | None, codec: Codec) -> Draft | Refusal:
    """Hold a parsed payload against its schema."""
    if codec.valid(element):
        return Draft(to, codec.name, markup, element)
    faults = tuple(f"{fault.path}: {fault.rule}" for fault in codec.faults(element))
    return Refusal(Code.VALIDATION, "; ".join(faults), to if isinstance(to, str) else "", faults)


def _from_response(response: object, codecs: Codecs, bounds: Bounds) -> Draft | Refusal | Failed:
    if not isinstance(response, HandlerResponse):
        return Failed(Code.INTERNAL, f"the handler returned {type(response).__name__} in its sequence")
    return draft(response.payload, response.to, codecs, bounds)


def _written(response: object, codecs: Codecs, bounds: Bounds) -> Written | None:
    """The markup of a response whose payload has one within bounds."""
    if not isinstance(response, HandlerResponse):
        return None
    try:
        markup = codecs.of(type(response.payload)).encode(response.payload)
    except (PayloadError, Unencodable):
        return None
    return None if isinstance(read_payload(markup.encode(), bounds), Malformed) else Written(response.to, markup)


def _from_written(written: Written, codecs: Codecs, bounds: Bounds) -> Draft | Refusal | Failed:
    element = read_payload(written.markup.encode(), bounds)
    target = written.to if isinstance(written.to, str) else ""
    if isinstance(element, Malformed):
        return Refusal(Code.VALIDATION, element.detail, target, (str(element.kind),))
    codec = codecs.named(str(element.tag))
    if codec is None:
        return Failed(Code.INTERNAL, f"no payload is called {element.tag}")
    return check(element, written.markup, written.to, codec)


def _from_text(text: bytes, codecs: Codecs, bounds: Bounds) -> Drafts | Refusal | Failed:
    reading = repair.read(text, tuple(codecs), bounds)
    if isinstance(reading, repair.Unreadable):
        code = Code.ROUTING if reading.unknown_root else Code.VALIDATION
        return Refusal(code, str(reading.reason), corrections=(str(reading.reason),))
    found = _collect(draft_markup(markup, codecs, bounds) for markup in reading.payloads)
    if isinstance(found, Drafts):
        return Drafts(found.drafts, tuple(str(note) for note in reading.notes), deprecated=True)
    return found


def draft_markup(markup: str, codecs: Codecs, bounds: Bounds) -> Draft | Refusal:
    """Read one payload element that names no target."""
    element = read_payload(markup.encode(), bounds)
    if isinstance(element, Malformed):
        return Refusal(Code.VALIDATION, element.detail, corrections=(str(element.kind),))
    codec = codecs.named(str(element.tag))
    if codec is None:
        return Refusal(Code.ROUTING, f"no payload is called {element.tag}")
    return check(element, markup, None, codec)


def _collect(found: Iterable[Draft | Refusal | Failed]) -> Drafts | Refusal | Failed:
    """All of them, or the first that stands in the way."""
    drafts: list[Draft] = []
    for item in found:
        if not isinstance(item, Draft):
            return item
        drafts.append(item)
    return Drafts(tuple(drafts))
