"""Vocabularies: checks before an intent exists."""

from __future__ import annotations

import pytest

from agentserver.handoff import parameters
from agentserver.handoff.intents import Intent, Vocabulary, VocabularyFault, find_narrow_peers, vocabulary
from agentserver.handoff.managed.orchestrate import INTENTS, TARGETS, reference
from agentserver.handoff.parameters import Parameter, Type
from agentserver.hygiene.objections import Objection
from agentserver.hygiene.simple_types import Lexical

TICKET = Parameter("ticket", Lexical(("[A-Z]{2,10}-[0-9]{1,7}",)))


def intent(**changes):
    facts = {
        "name": "review",
        "targets": ("lawyer",),
        "template": "Review {ticket}.",
        "parameters": (TICKET,),
    }
    return Intent(**{**facts, **changes})


def faults(*intents, **options):
    found = vocabulary(intents, **options)
    assert not isinstance(found, Vocabulary)
    return " | ".join(map(str, found))


def test_a_sound_vocabulary_is_made():
    found = vocabulary([intent()])
    assert isinstance(found, Vocabulary)
    assert found.targets == {"lawyer"}
    assert found.intents["review"].slugs.keys() == {"ticket"}


def test_the_reference_vocabulary_is_proved_whole():
    assert set(reference().intents) == {each.name for each in INTENTS}
    assert reference().targets == set(TARGETS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"parameters": (Parameter("ticket", Lexical(("[A-Za-z ]+",), max_length=20)),)},
            "ticket: admits U+0020 SPACE, as in 'a a'",
        ),
        ({"parameters": (Parameter("ticket", Lexical(("[A-Z]+",))),)}, "no bound"),
        ({"parameters": (Parameter("ticket", Lexical()),)}, "any text fits it"),
        ({"parameters": (Parameter("ticket", Lexical((r"[a-z]$",))),)}, "must not use $"),
        ({"parameters": (Parameter("ticket", Lexical(("[",))),)}, "regular expression"),
        ({"parameters": (Parameter("ticket", Lexical(("[a-z]{3}",)), words=99),)}, "word budget"),
        ({"parameters": ()}, "is no parameter; there are: none"),
        ({"parameters": (TICKET, TICKET)}, "declared twice"),
        ({"parameters": (TICKET, Parameter("a b", Lexical(choices=("x",))))}, "no name of a parameter"),
        (
            {"template": "Review {ticket} {note}.", "note": "note"},
            "free text, which a template must not interpolate",
        ),
        ({"note": "ticket"}, "declared twice"),
        ({"note": "note", "note_limit": 10_001}, "must be bounded"),
        ({"note": "note", "note_limit": 0}, "must be bounded"),
        ({"template": "{ticket"}, "brace"),
        (
            {"parameters": (Parameter("ticket", Lexical(choices=("x",)), required=False),)},
            "empty when no optional",
        ),
        ({"name": "send it"}, "letters"),
        ({"targets": ()}, "at least one listener"),
    ],
)
def test_faults_name_the_field_and_the_way_out(changes, said):
    assert said in faults(intent(**changes))


def test_targets_are_held_against_the_allowlist():
    assert "'lawyer' is not in the allowlist" in faults(intent(), targets=["clerk"])


def test_an_intent_is_declared_once():
    assert "declared twice" in faults(intent(), intent())


def test_the_older_form_needs_an_intent_without_required_parameters():
    assert "not declared" in faults(intent(), legacy="gone")
    assert "requires one" in faults(intent(), legacy="review")
    sweep = intent(
        template="Sweep. {ticket}.",
        parameters=(Parameter("ticket", Lexical(choices=("x",)), required=False),),
    )
    assert isinstance(vocabulary([sweep], legacy="review"), Vocabulary)


def test_a_fault_without_a_field():
    assert str(VocabularyFault("a", "", "b")) == "intent a: b"


def test_narrowing_is_held_against_the_targets_peers():
    found = vocabulary([intent(allow_peers=frozenset({"files"}))])
    assert isinstance(found, Vocabulary)
    assert find_narrow_peers(found, {"lawyer": {"files", "outbox"}}) == ()
    assert "no peer files" in str(find_narrow_peers(found, {"lawyer": {"outbox"}})[0])
    assert "no listener" in str(find_narrow_peers(found, {})[0])
    plain = vocabulary([intent()])
    assert isinstance(plain, Vocabulary)
    assert find_narrow_peers(plain, {"lawyer": frozenset()}) == ()


SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:a:v1" targetNamespace="urn:a:v1"
 elementFormDefault="qualified">
 <xs:element name="a" type="A"/>
 <xs:complexType name="A"><xs:{model}>{fields}</xs:{model}>{attributes}</xs:complexType>
 <xs:simpleType name="integer"><xs:restriction base="xs:integer"><xs:pattern value="[0-9]{{1,3}}"/></xs:restriction></xs:simpleType>
 <xs:simpleType name="loop"><xs:restriction base="loop"/></xs:simpleType>
</xs:schema>"""


def read(fields, attributes="", model="all"):
    return parameters.from_xsd(SCHEMA.format(fields=fields, attributes=attributes, model=model))


def test_parameters_are_read_from_a_payloads_xsd():
    fields = (
        '<xs:element name="ticket"><xs:simpleType><xs:restriction><xs:simpleType><xs:restriction base="xs:string">'
        '<xs:pattern value="[A-Z]+"/><xs:maxLength value="20"/></xs:restriction></xs:simpleType>'
        '<xs:pattern value="A.*"/><xs:pattern value="B.*"/><xs:minLength value="2"/><xs:maxLength value="9"/>'
        "</xs:restriction></xs:simpleType></xs:element>"
        '<xs:element name="count" type="integer" minOccurs="0"/>'
        '<xs:element name="sure" type="xs:boolean"/>'
        '<xs:element name="day" type="xs:date"/>'
    )
    attributes = (
        '<xs:attribute name="kind"><xs:simpleType><xs:restriction base="xs:string"><xs:enumeration value="x"/>'
        '<xs:enumeration value="y"/><xs:length value="1"/></xs:restriction></xs:simpleType></xs:attribute>'
        '<xs:attribute name="sum" type="xs:decimal" use="required"/>'
    )
    found = read(fields, attributes)
    assert isinstance(found, tuple)
    assert {each.name: each.required for each in found} == {
        "ticket": True,
        "count": False,
        "sure": True,
        "day": True,
        "kind": False,
        "sum": True,
    }
    by_name = {each.name: each for each in found}
    assert by_name["ticket"].lexical == Lexical(("(A.*)|(B.*)", "[A-Z]+"), (), 2, 9)
    assert by_name["count"].type is Type.INTEGER
    assert by_name["count"].lexical.patterns[0] == "[0-9]{1,3}"
    assert by_name["kind"].lexical == Lexical((), ("x", "y"), 1, 1)
    template = "Look at {ticket}, {sure}, {day}, {sum}. Up to {count}. As {kind}."
    assert isinstance(vocabulary([intent(template=template, parameters=found)]), Vocabulary)


def test_the_schema_of_a_payload_class_is_read():
    from dataclasses import dataclass
    from typing import Annotated, Literal

    from annotated_types import Le, MaxLen

    from agentserver import Pattern, xmlify

    @xmlify
    @dataclass(frozen=True)
    class Review:
        ticket: Annotated[str, Pattern("[A-Z]{2,10}-[0-9]{1,7}"), MaxLen(18)]
        kind: Literal["full", "quick"]
        days: Annotated[int, Le(90)] = 5
        note: Annotated[str, MaxLen(500)] = ""

    found = parameters.from_xsd(xsd_of(Review))
    assert isinstance(found, tuple)
    typed = tuple(each for each in found if each.name != "note")
    made = intent(template="Review {ticket}, {kind}. Within {days} days.", parameters=typed, note="note")
    assert isinstance(vocabulary([made]), Vocabulary)
    assert {each.name for each in found if not each.required} == {"days", "note"}
    wordy = intent(template="Review {note}.", parameters=found)
    assert "any text fits it" in faults(wordy)


def xsd_of(payload):
    from agentserver.payload.codec import Codecs

    return Codecs([payload]).of(payload).xsd()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ('<xs:element name="x" type="xs:string" maxOccurs="2"/>', "repeated"),
        ('<xs:element name="x" type="A"/>', "simple type"),
        ('<xs:element name="x" type="Gone"/>', "simple type"),
        ('<xs:element name="x" type="loop"/>', "simple type"),
        ('<xs:element name="x" type="xs:anyURI"/>', "simple type"),
    ],
)
def test_an_invalid_parameter_is_refused(fields, said):
    found = read(fields, model="sequence")
    assert isinstance(found, Objection)
    assert said in found.detail


@pytest.mark.parametrize("markup", ["<a", '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"/>'])
def test_an_invalid_payload_schema_is_refused(markup):
    assert isinstance(parameters.from_xsd(markup), Objection)


def test_a_root_of_its_own_type_and_one_without_fields():
    markup = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a">{}</xs:element></xs:schema>'
    inline = '<xs:complexType><xs:attribute name="b" type="xs:int"/></xs:complexType>'
    (found,) = parameters.from_xsd(markup.format(inline))
    assert (found.name, found.required, found.type) == ("b", False, Type.INTEGER)
    assert parameters.from_xsd(markup.format("")) == ()


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Type.TEXT, "a", "a"),
        (Type.TEXT, 1, None),
        (Type.TEXT, None, None),
        (Type.INTEGER, 7, "7"),
        (Type.INTEGER, True, None),
        (Type.INTEGER, "7", None),
        (Type.INTEGER, 10**18, None),
        (Type.BOOLEAN, True, "true"),
        (Type.BOOLEAN, False, "false"),
        (Type.BOOLEAN, "true", None),
        (Type.DECIMAL, "1.5", "1.5"),
        (Type.DECIMAL, 1.5, None),
    ],
)
def test_values_have_the_type_of_their_parameter(kind, value, text):
    assert Parameter("x", Lexical(), kind).text(value) == text


@pytest.mark.parametrize("most", [-1, 10_001])
def test_the_free_text_next_to_the_parameters_is_bounded(most):
    (fault,) = vocabulary([Intent("sweep", ("clerk",), "Sweep.", event_limit=most)])
    assert (fault.field, fault.detail) == ("event", "must be bounded: 0 to 10000 characters")
