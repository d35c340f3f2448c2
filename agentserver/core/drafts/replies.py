"""Results of handlers as drafts: encoded, parsed again and validated, or refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from agentserver.contract import Code, DelayedResponse, HandlerResponse, Target
from agentserver.core.blueprint import Listener
from agentserver.core.drafts.routing import Proposal, Route, refuse_forgery
from agentserver.core.messages import SYSTEM, Draft, Drafts, HandlerFailure
from agentserver.core.pieces import run_pieces
from agentserver.core.records.details import Corrections, Failure, Ground
from agentserver.core.refusals import Refusal
from agentserver.payload.codec import UndeclaredPayload, is_system_name
from agentserver.payload.generate import Unencodable
from agentserver.payload.xmlify import PayloadError
from agentserver.wire import envelope, repair
from agentserver.wire.envelope import Malformed, read_payload, read_written

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lxml import etree

    from agentserver.core.guard import Rules
    from agentserver.core.pieces import Pieces
    from agentserver.core.records.details import Detail
    from agentserver.core.state.requests import ResultLimits
    from agentserver.payload.codec import Codec, Codecs
    from agentserver.wire.envelope import Bounds

_new = tuple.__new__
"""Makes a tuple without the call of Python that its class would make of its fields' names."""


def normalise(
    value: object, codecs: Codecs, bounds: Bounds, room: ResultLimits
) -> Drafts | Refusal | HandlerFailure:
    """Read the result of a handler, as ``read_result`` does, without a pause."""
    return run_pieces(read_result(value, codecs, bounds, room))


def read_result(
    value: object, codecs: Codecs, bounds: Bounds, room: ResultLimits
) -> Pieces[Drafts | Refusal | HandlerFailure]:
    """Read the result of a handler; one piece per message.

    An invalid payload is a Refusal, for the sender to correct, and so is a result that exceeds its room; with too many
    messages none is encoded. A value that is not a result is a defect of the handler and a HandlerFailure. The
    handler's own objects may raise anything: call this where a crash of the handler is caught.
    """
    if value is None:
        return Drafts()
    if isinstance(value, bytes):
        return (yield from _from_text(value, codecs, bounds, room))
    if isinstance(value, HandlerResponse):
        return read_single(value, codecs, bounds)
    if not isinstance(value, list | tuple):
        return HandlerFailure(Code.INTERNAL, Ground.NO_RESPONSE.of(type(value).__name__))
    responses = tuple(islice(value, room.messages + 1))  # its own iteration may be without an end
    if len(responses) > room.messages:
        return refuse_overspent(Ground.MESSAGES.of(room.messages))
    return (yield from _collect((_from_response(response, codecs, bounds) for response in responses), room))


def add_delayed(value: object, delayed: Sequence[DelayedResponse]) -> object:
    """Append the messages of ``Invocation.later`` to the result of a handler. Raises TypeError for bytes."""
    if not delayed:
        return value
    if isinstance(value, bytes):
        raise TypeError("a handler that returns bytes cannot send messages later")
    if value is None or isinstance(value, HandlerResponse):
        return [*([] if value is None else [value]), *delayed]
    return [*value, *delayed] if isinstance(value, list | tuple) else value


def read_single(
    response: HandlerResponse, codecs: Codecs, bounds: Bounds
) -> Drafts | Refusal | HandlerFailure:
    """Read the result of a handler that is one response; see ``read_result``."""
    one = _from_response(response, codecs, bounds)
    return _new(Drafts, ((one,), (), False)) if isinstance(one, Draft) else one


def encode_draft(
    payload: object, to: str | Target | None, codecs: Codecs, bounds: Bounds
) -> Draft | Refusal | HandlerFailure:
    """Encode one payload, parse it again and validate it.

    A payload that a restart could not read would be lost in a crash, so it is refused here.
    """
    target = to if isinstance(to, str) else ""
    try:
        kind = type(payload)
        codec = codecs.known(kind) or codecs.of(kind)
    except UndeclaredPayload as error:
        return Refusal(Code.VALIDATION, Corrections((str(error),)), target)
    except PayloadError as error:
        return HandlerFailure(Code.INTERNAL, Failure(str(error)))
    try:
        markup = codec.encode(payload)
    except Unencodable as error:
        return _refuse_faulty((str(error),), target, codec.name)
    element = read_written(markup, bounds, regular=codec.regular)
    if isinstance(element, Malformed):
        return _refuse_faulty((element.detail,), target, codec.name, markup)
    if codec.valid_own(element, len(markup)):
        return _new(Draft, (to, codec.name, markup, element, 0.0))
    return _refuse_invalid(element, markup, to, codec)


def check(element: etree._Element, markup: str, to: str | Target | None, codec: Codec) -> Draft | Refusal:
    """Validate a parsed payload."""
    if codec.valid(element):
        return _new(Draft, (to, codec.name, markup, element, 0.0))
    return _refuse_invalid(element, markup, to, codec)


def _refuse_invalid(element: etree._Element, markup: str, to: str | Target | None, codec: Codec) -> Refusal:
    faults = tuple(f"{fault.path}: {fault.rule}" for fault in codec.faults(element))
    target = to if isinstance(to, str) else ""
    return _refuse_faulty(faults, target, codec.name, markup)


def _from_response(response: object, codecs: Codecs, bounds: Bounds) -> Draft | Refusal | HandlerFailure:
    if not isinstance(response, HandlerResponse):
        return HandlerFailure(Code.INTERNAL, Ground.NO_RESPONSES.of(type(response).__name__))
    to: object = response.to
    if isinstance(to, str):
        to = str.__str__(to)  # a subclass could look different at every look
    elif not isinstance(to, Target):
        return HandlerFailure(Code.INTERNAL, Ground.NO_TARGET.of(type(to).__name__))
    drafted = encode_draft(response.payload, to, codecs, bounds)
    if isinstance(response, DelayedResponse) and isinstance(drafted, Draft):
        return drafted._replace(after=response.after)
    return drafted


def _refuse_faulty(faults: tuple[str, ...], to: str = "", root: str = "", said: str = "") -> Refusal:
    """Refuse a payload that its sender can correct."""
    return Refusal(Code.VALIDATION, Corrections(faults), to, faults, root, said)


def refuse_overspent(detail: Detail) -> Refusal:
    """Refuse a result that exceeds its room. This ends the request."""
    return Refusal(Code.BUDGET, detail)


def _from_text(
    text: bytes, codecs: Codecs, bounds: Bounds, room: ResultLimits
) -> Pieces[Drafts | Refusal | HandlerFailure]:
    parsed = repair.repair_payloads(text, tuple(codecs), bounds, room.messages)
    if isinstance(parsed, repair.Unreadable):
        if parsed.reason is repair.RepairRefusal.MANY:
            return refuse_overspent(Ground.PAYLOADS.of(room.messages))
        named = read_payload(text, bounds) if parsed.unknown_root else None
        if named is not None and not isinstance(named, Malformed) and is_system_name(str(named.tag)):
            return refuse_forgery(str(named.tag))
        code = Code.ROUTING if parsed.unknown_root else Code.VALIDATION
        corrections = (str(parsed.reason),)
        return Refusal(code, Corrections(corrections), corrections=corrections)
    found = yield from _collect(
        (from_markup(markup, None, codecs, bounds) for markup in parsed.payloads), room
    )
    if isinstance(found, Drafts):
        return Drafts(found.drafts, tuple(str(note) for note in parsed.notes), deprecated=True)
    return found


def from_markup(markup: str, to: str | Target | None, codecs: Codecs, bounds: Bounds) -> Draft | Refusal:
    """Read one payload element of any author."""
    target = to if isinstance(to, str) else ""
    element = read_payload(markup.encode("utf-8", "surrogatepass"), bounds)
    if isinstance(element, Malformed):
        return _refuse_faulty((element.detail,), target)
    codec = codecs.for_root(str(element.tag))
    if codec is None:
        return _refuse_faulty((f"{element.tag} is no payload of this organism",), target)
    return check(element, markup, to, codec)


def read_recorded(
    messages: Iterable[tuple[str, str | Target | None, float]],
    codecs: Codecs,
    bounds: Bounds,
    room: ResultLimits,
) -> Drafts | Refusal | HandlerFailure:
    """Read a result that another process serialised: the markup, the target and the delay of each message."""
    some = tuple(islice(messages, room.messages + 1))
    if len(some) > room.messages:
        return refuse_overspent(Ground.MESSAGES.of(room.messages))
    return run_pieces(_collect((_from_recorded(*one, codecs, bounds) for one in some), room))


def _from_recorded(
    markup: str, to: str | Target | None, after: float, codecs: Codecs, bounds: Bounds
) -> Draft | Refusal:
    drafted = from_markup(markup, to, codecs, bounds)
    return drafted._replace(after=after) if after and isinstance(drafted, Draft) else drafted


def _collect(
    found: Iterable[Draft | Refusal | HandlerFailure], room: ResultLimits
) -> Pieces[Drafts | Refusal | HandlerFailure]:
    """Collect the drafts, or return the first refusal or failure."""
    drafts: list[Draft] = []
    size = 0
    for place, item in enumerate(found):
        if isinstance(item, Refusal):
            return replace(item, place=place)
        if not isinstance(item, Draft):
            return item
        size += len(item.markup.encode())
        if size > room.bytes:
            return refuse_overspent(Ground.BYTES.of(room.bytes))
        drafts.append(item)
        yield
    return Drafts(tuple(drafts))


def make_notice(
    payload: object, thread: str, rules: Rules, *, sender: str = SYSTEM, caller: bool = False, about: str = ""
) -> Proposal:
    """Make a message of the system's to a thread.

    Args:
        payload: its payload, of a class of the system's.
        thread: the thread that it is about.
        rules: whose codecs write it.
        sender: the name the receiver sees.
        caller: send it to the caller of the thread, as the thread's answer, and not to the thread itself.
        about: for a SystemError, the listener whose failure it reports.
    """
    codec = rules.codecs.of(type(payload))
    markup = codec.encode(payload)
    element = envelope.read_written(markup, rules.bounds)
    assert not isinstance(element, envelope.Malformed)  # a codec of ours has written it
    route = Route.ANSWER if caller else Route.NOTICE
    return Proposal(Listener(sender, (), ""), thread, "", route, codec.name, markup, element, about=about)
