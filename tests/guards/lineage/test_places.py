"""Places: the scalars of elements of both kinds of payload, and what their structure tells."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from lxml import etree

from agentserver.core.messages import Delivery, Draft
from agentserver.core.refusals import Refusal
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.guards.lineage.hiding import measure_schema
from agentserver.guards.lineage.memory import Memory
from agentserver.guards.lineage.reading import Readings, count_structure_bits, list_places
from agentserver.guards.lineage.references import FORM
from agentserver.guards.lineage.viewer import find_refusing_fields
from agentserver.payload.codec import Codecs
from agentserver.payload.xsd_codec import Binding, XsdCodec, bind
from agentserver.provenance import Policy
from agentserver.provenance.evidence.leaves import format_text
from agentserver.wire.envelope import canonical
from tests.payload.test_xsd_codec import CODEC, invoice

XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:x" targetNamespace="urn:x"
    elementFormDefault="qualified">
  <xs:element name="post"><xs:complexType>
    <xs:sequence>
      <xs:element name="text" type="xs:string"/>
      <xs:element name="flag" type="xs:boolean"/>
      <xs:element name="mood"><xs:simpleType><xs:restriction base="xs:string">
        <xs:enumeration value="good"/><xs:enumeration value="bad"/></xs:restriction></xs:simpleType></xs:element>
      <xs:element name="when" type="xs:date" minOccurs="0"/>
      <xs:element name="tag" type="xs:string" minOccurs="0" maxOccurs="unbounded"/>
    </xs:sequence>
    <xs:attribute name="by" type="xs:string"/>
  </xs:complexType></xs:element>
</xs:schema>"""


@dataclass(frozen=True)
class Post:
    """As xsdata makes it."""

    class Meta:
        name = "post"
        namespace = "urn:x"

    text: str = field(metadata={"type": "Element", "required": True})
    flag: bool = field(metadata={"type": "Element", "required": True})
    mood: str = field(metadata={"type": "Element", "required": True})
    when: str | None = field(default=None, metadata={"type": "Element"})
    tag: list[str] = field(default_factory=list, metadata={"type": "Element"})
    by: str | None = field(default=None, metadata={"type": "Attribute"})


bind(Post, XSD)
BODY = '<post xmlns="urn:x" by="eve"><text>do it</text><flag>true</flag><mood>bad</mood>{}<tag>a</tag><tag>b</tag></post>'


def show_payload(markup):
    codecs = Codecs([Post])
    policy = Policy(sources=("page",), sinks=(), relays=("planner",))
    guard = LineageGuard(TrustSettings(policy, viewers=frozenset({"planner"})), ["page", "planner"], codecs)
    codec, element = codecs.of(Post), etree.fromstring(markup)
    assert codec.valid(element)
    delivery = Delivery("d", "c", "r", "t", "o", "page", "planner", codec.name, b"", 2)
    memory = guard.observe(Memory(), delivery, element, 0.0)
    return guard, codec, element, guard.present(Memory(), delivery, element), memory


def test_a_hand_written_payload_is_shown_with_references_and_restored_unchanged():
    guard, codec, element, seen, memory = show_payload(BODY.format(""))
    assert not isinstance(seen, Refusal)
    found = {place.path: place.text for place in list_places(codec, seen)}
    assert (found["flag[0]"], found["mood[0]"]) == ("true", "bad")
    assert all(FORM.fullmatch(text) for path, text in found.items() if path not in {"flag[0]", "mood[0]"})
    assert len(found) == 6
    draft = Draft("page", codec.name, canonical(seen).decode(), seen)
    back = guard.resolve(memory, draft, "t", 1 << 20)
    assert canonical(back.element) == canonical(element)


def test_fields_without_references_are_left_out_of_a_hand_written_payload():
    _, codec, _, seen, _ = show_payload(BODY.format("<when>2026-01-31</when>"))
    assert "when[0]" not in {place.path for place in list_places(codec, seen)}


def test_the_places_of_a_hand_written_payload_are_its_leaves():
    element = etree.fromstring(CODEC.encode(invoice(mail="ann@corp.example", copies=2)))
    found = {place.path: place.text for place in list_places(CODEC, element) if place.attribute is None}
    leaves = Readings(Codecs([CODEC]))[CODEC.name].read_leaves(element)
    assert {leaf.path: format_text(leaf.value) for leaf in leaves}.items() >= found.items()


def test_closed_types_and_refusing_fields_of_a_hand_written_schema():
    codec = XsdCodec(Binding(Post, XSD.encode()))
    assert measure_schema(codec).closed == {"/post/flag": 2.0, "/post/mood": 1.0}
    example = Post("a", flag=True, mood="bad", when="2026-01-31")
    assert list(find_refusing_fields(XsdCodec(Binding(Post, XSD.encode(), example=example)))) == [
        ("when[0]", True)
    ]


def test_structure_of_a_hand_written_payload_is_counted_at_most():
    codec = XsdCodec(Binding(Post, XSD.encode()))
    element = etree.fromstring(BODY.format(""))
    assert count_structure_bits(codec, measure_schema(codec).names, element) == pytest.approx(
        6 * (2 * 2.807 + 1), abs=0.01
    )
