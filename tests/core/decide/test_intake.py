from __future__ import annotations

import pytest

from agentserver.contract import Code
from agentserver.core.decide.intake import ENVELOPE, read_outside, read_own
from agentserver.core.messages import Delivery
from agentserver.core.records.wording import WORDING
from agentserver.core.refusals import Refusal
from agentserver.wire import envelope
from agentserver.wire.envelope import write
from tests.core.paper import Ask, Note, listener, rules

RULES = rules(listener("a"))
ASK, NOTE = RULES.codecs.of(Ask), RULES.codecs.of(Note)


def read_input(data, to=None):
    return read_outside(data, to, RULES)


def test_the_gateways_values_override_those_of_the_envelope():
    assert read_input(write("x", "b", None, ASK.encode(Ask("x"))), "c").to == "c"
    assert read_input(ASK.encode(Ask("x")).encode(), "c").to == "c"
    assert read_input(ASK.encode(Ask("x")).encode()).to is None


CLAIMS = {
    "sender left out": (b"<from>console</from>", b""),
    "sender is the system": (b"console", b"system"),
    "sender is a listener": (b"console", b"a"),
    "sender is another principal": (b"console", b"eve"),
    "thread left out": (b"<thread>t</thread>", b""),
    "thread of another conversation": (b">t<", b">00000000-0000-0000-0000-000000000001<"),
    "both left out": (b"<from>console</from><to>b</to><thread>t</thread>", b"<to>b</to>"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_of_an_envelope_change_nothing(name):
    whole = write("console", "b", "t", ASK.encode(Ask("x")))
    claimed = whole.replace(*CLAIMS[name])
    assert claimed != whole
    assert read_input(claimed)[:3] == read_input(whole)[:3] == ("b", ASK.name, ASK.encode(Ask("x")))


@pytest.mark.parametrize("bad", [b"<from/>", b"<from> <b/></from>", b"<from>a</from><from>b</from>"])
def test_a_sender_that_is_no_name_is_refused(bad):
    found = read_input(
        write("console", "b", None, ASK.encode(Ask("x"))).replace(b"<from>console</from>", bad)
    )
    assert found.code is Code.VALIDATION


@pytest.mark.parametrize("to", [None, "c"])
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.VALIDATION),
        (b"<", Code.VALIDATION),
        (b"<Ask/>", Code.VALIDATION),
        (b'<message xmlns="urn:agentserver:envelope:v1"/>', Code.VALIDATION),
        (ASK.encode(Ask("x")).replace("text", "test").encode(), Code.VALIDATION),
        (b'<Ask xmlns="urn:other"/>', Code.ROUTING),
        (write("x", "b", None, '<Ask xmlns="urn:other"/>'), Code.ROUTING),
    ],
)
def test_an_unreadable_message_is_refused_with_its_target(data, code, to):
    found = read_input(data, to)
    assert isinstance(found, Refusal)
    assert found.code is code
    assert found.to == (to or ("b" if b"<to>" in data else ""))
    assert bool(found.corrections) is (code is Code.VALIDATION)


def test_the_canonical_form_may_reach_the_bound():
    most = RULES.bounds.bytes - len(ASK.encode(Ask("")))
    assert not isinstance(read_input(ASK.encode(Ask("x" * most)).encode()), Refusal)
    references = ASK.encode(Ask("-")).replace("-", "x" * (most - 4) + ">").encode()
    assert not isinstance(read_input(references), Refusal)
    found = read_input(references.replace(b"x>", b"xx>"))
    assert (found.code, WORDING.join_lines(found.detail)) == (
        Code.VALIDATION,
        f"more than {RULES.bounds.bytes} bytes",
    )


def own(message, codec=ASK):
    delivery = Delivery("d", "c", "r", "t", "o", "x", "a", codec.name, message, 1)
    return read_own(delivery, codec, RULES.bounds)


def test_our_own_message_is_read_back():
    element = own(write("x", "a", "t", ASK.encode(Ask("hi"))))
    assert ASK.decode(element) == Ask("hi")


@pytest.mark.parametrize(
    "message",
    [
        b"junk",
        write("x", "a", "t", NOTE.encode(Note("hi"))),
        write("x", "a", "t", ASK.encode(Ask("hi")).replace("<text>hi</text>", "")),
    ],
)
def test_our_own_message_is_nothing_once_its_schema_no_longer_accepts_it(message):
    assert own(message) is None


def test_the_room_for_an_envelope_is_enough_for_any_names():
    longest = write("&" * 256, "\U0010ffff" * 256, "&" * 256, "")
    assert len(longest) <= ENVELOPE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<a/>",
        b'<a xmlns="urn:x"/>',
        b'<message xmlns="urn:agentserver:envelope:v1"/>',
        b'<message xmlns="urn:agentserver:envelope:v1"><a xmlns="urn:x"/></message>',
        b'<message xmlns="urn:agentserver:envelope:v1"><to>b</to><a xmlns="urn:x"/></message>',
        b'<a xmlns="urn:x" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type="b"/>',
        b'<!DOCTYPE a><a xmlns="urn:x"/>',
    ],
)
def test_input_is_an_envelope_or_else_a_bare_payload(data):
    either, whole, bare = (
        envelope.read_either(data),
        envelope.read_envelope(data),
        envelope.read_payload(data),
    )
    if isinstance(whole, envelope.Envelope):
        assert (either.to, either.payload.tag) == (whole.to, whole.payload.tag)
    elif isinstance(bare, envelope.Malformed):
        assert either == bare
    else:
        assert either.tag == bare.tag
