"""Reading of messages that arrive as bytes, from outside or from an engine.

Of an outside envelope only ``to`` is believed; a kept message must still satisfy its schema.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.drafts import replies
from agentserver.core.drafts.routing import refuse_forgery
from agentserver.core.records.details import Corrections, Ground
from agentserver.core.refusals import Refusal
from agentserver.payload.codec import is_system_name
from agentserver.wire import envelope
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from lxml import etree

    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Draft
    from agentserver.payload.codec import Codec
    from agentserver.wire.envelope import Bounds

ENVELOPE = 4096
"""Bytes that an envelope adds to its payload at most: three names of 256 characters, escaped, and its tags."""


def read_own(delivery: Delivery, codec: Codec, bounds: Bounds) -> etree._Element | None:
    """Read the payload of a delivery; None when an older one no longer fits its schema."""
    read = envelope.read_envelope(delivery.message, _widen_for_envelope(bounds))
    if (
        isinstance(read, envelope.Malformed)
        or read.payload.tag != codec.name
        or not codec.valid(read.payload)
    ):
        return None
    return read.payload


def _widen_for_envelope(bounds: Bounds) -> Bounds:
    """Add the size of an envelope to the bounds of a payload."""
    return replace(
        bounds,
        bytes=bounds.bytes + ENVELOPE,
        depth=bounds.depth + 1,
        elements=bounds.elements + 4,
        attributes=bounds.attributes + 1,
    )


def read_outside(data: bytes, to: str | None, rules: Rules, *, checked: bool = False) -> Draft | Refusal:
    """Read an envelope or a bare payload from outside; ``to`` overrides the envelope.

    ``checked``: the data have no names but those of these rules.
    """
    read = envelope.read_either(data, rules.bounds, checked=checked)
    if isinstance(read, envelope.Malformed):
        return _refuse_malformed(read.detail, to)
    if isinstance(read, envelope.Envelope):
        return _make_draft(read.payload, to or read.to, rules)
    return _make_draft(read, to, rules)


def _make_draft(element: etree._Element, to: str | None, rules: Rules) -> Draft | Refusal:
    codec = rules.codecs.for_root(str(element.tag))
    if codec is None:
        name = str(element.tag)
        return (
            refuse_forgery(name, to or "")
            if is_system_name(name)
            else Refusal(Code.ROUTING, Ground.NO_PAYLOAD.of(), to or "")
        )
    markup = canonical(element)
    if len(markup) > rules.bounds.bytes:  # a reference can expand
        return _refuse_malformed(f"more than {rules.bounds.bytes} bytes", to)
    return replies.check(element, markup.decode(), to, codec)


def _refuse_malformed(detail: str, to: str | None) -> Refusal:
    return Refusal(Code.VALIDATION, Corrections((detail,)), to or "", (f"the document: {detail}",))
