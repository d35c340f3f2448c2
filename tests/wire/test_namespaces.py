"""Whatever namespace a payload class may bear, its canonical form is read back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import xmlify
from agentserver.core.drafts.replies import encode_draft
from agentserver.payload.codec import Codecs
from agentserver.payload.xmlify import PayloadError
from agentserver.wire import envelope, repair
from agentserver.wire.envelope import Bounds, canonical, read_envelope, read_payload, write

AWKWARD = ["&", "&amp;", "&lt;", '"', "'", "<", ">", "%", "%41", "%zz", " ", "\n", "\t", "é", "[", "?a=1&b=2", "#", "\\",
           ' xmlns="urn:b&c"', "\ud800", "\x7f", "://", "@", "//h:1/"]  # fmt: skip
SPACES = st.tuples(
    st.sampled_from(["urn:a", "http://a.example/", "x-y:", "", "urn:agentserver:payload:"]),
    st.lists(st.sampled_from(AWKWARD) | st.text(max_size=3), max_size=4).map("".join),
).map("".join)
TEXTS = st.sampled_from(["x", ' xmlns="urn:a&b:v1"', '<o xmlns="urn:a&b:v1">', "&amp;", "'", "a&b"])


@dataclass(frozen=True)
class Said:
    text: str
    more: tuple[str, ...] = ()


def declare_codec(namespace):
    """The class's codec in this namespace; None when it is refused."""
    kind = type("Said", (Said,), {"__annotations__": {}, "__module__": __name__})
    try:
        return Codecs([xmlify(namespace=namespace)(dataclass(frozen=True)(kind))]).of(kind)
    except PayloadError:
        return None


@given(SPACES, TEXTS)
def test_a_namespace_is_read_back_or_refused_at_declaration(namespace, text):
    codec = declare_codec(namespace)
    if codec is not None:
        holds(codec, text)


@pytest.mark.parametrize(
    "namespace",
    ["urn:a&b", "urn:a&amp;b", "http://a.example/?a=1&b=2", "urn:a'b", "urn:a%26b", "x:&&lt;&#38;"],
)
def test_an_ampersand_in_a_namespace_is_no_matter(namespace):
    codec = declare_codec(namespace)
    assert codec is not None
    for text in ('a&b" xmlns="urn:a&b:v1"', f' xmlns="{namespace}:v1"', "<&>"):
        holds(codec, text)


@pytest.mark.parametrize(
    "namespace",
    ["urn:é", "urn:%zz", "urn:a b", "urn:a\nb", 'urn:a"b', "urn:a<b", "plain", "urn:[", "http://a:b"],
)
def test_a_name_without_a_canonical_form_is_refused_at_declaration(namespace):
    assert declare_codec(namespace) is None


def holds(codec, text):
    value = codec.payload(text, (text, ""))
    codecs = Codecs([codec])
    markup = codec.encode(value)
    element = read_payload(markup.encode())
    assert codec.decode(element) == value
    form = canonical(element)
    again = read_payload(form)
    assert not isinstance(again, envelope.Malformed), again
    assert (codec.valid(again), codec.decode(again), canonical(again)) == (True, value, form)
    wire = read_envelope(write("a", "b", "t", form.decode()))
    assert isinstance(wire, envelope.Envelope)
    assert canonical(wire.payload) == form
    assert encode_draft(value, "b", codecs, Bounds()).markup == markup
    prose = f"Here you are:\n{markup}\nDone.".encode()
    assert repair.repair_payloads(prose, tuple(codecs), Bounds(), 9).payloads == (form.decode(),)


def test_a_missing_namespace_with_an_ampersand_is_added_well_formed():
    codec = declare_codec("urn:a&b")
    bare = codec.encode(codec.payload("x & y")).replace(' xmlns="urn:a&amp;b:v1"', "").replace("&amp;", "&")
    (payload,) = repair.repair_payloads(bare.encode(), (codec,), Bounds(), 9).payloads
    assert codec.decode(read_payload(payload.encode())) == codec.payload("x & y")
    unescaped = codec.encode(codec.payload("x & y")).replace("&amp;", "&")
    (payload,) = repair.repair_payloads(unescaped.encode(), (codec,), Bounds(), 9).payloads
    assert codec.decode(read_payload(payload.encode())) == codec.payload("x & y")


def test_a_prefix_and_an_attribute_keep_their_ampersands():
    markup = (
        b"<p:o xmlns:p='urn:a&amp;b' xmlns:q='urn:c&amp;amp;' q:k=' xmlns=&quot;urn:a&amp;b&quot;'>"
        b' xmlns="urn:a&amp;b" &gt;<p:i/></p:o>'
    )
    element = read_payload(markup)
    form = canonical(element)
    again = read_payload(form)
    assert canonical(again) == form
    assert (again.tag, again.attrib, again.text) == (element.tag, element.attrib, element.text)
