"""Elements as leaves: typed, by field name, with the marks of the payload's type, without the author's constructor."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated

import pytest
from lxml import etree

from agentserver import Attribute, Element, xmlify
from agentserver.guards.lineage.reading import Readings, list_texts
from agentserver.payload.codec import Codecs
from agentserver.payload.xsd_codec import Binding
from agentserver.payload.xsd_codec import XsdCodec as BoundCodec
from agentserver.provenance.evidence.labels import Role, Standing
from tests.payload.test_xsd_codec import CODEC, FOLDER, MONEY, SCHEMA, Receipt, invoice


class Kind(Enum):
    LOUD = "loud"


@dataclass(frozen=True)
class Item:
    label: Annotated[str, Standing.PROSE]
    price: Decimal


@xmlify
@dataclass(frozen=True)
class Order:
    number: Annotated[int, Attribute("no"), Standing.RECORD]
    to: Annotated[str, Element("recipient"), Role.DESTINATION]
    day: date
    kind: Kind
    blob: bytes
    items: list[Item]
    tags: Annotated[list[Annotated[str, Standing.DIRECTORY]], Role.INERT] = field(default_factory=list)
    note: Annotated[str, Standing.OWN] | None = None

    def __post_init__(self):
        if self.to == "boom":
            raise AssertionError("the author's constructor is not called")


ORDER = Order(
    7, "ann", date(2026, 1, 31), Kind.LOUD, b"secret", [Item("a", Decimal("1.50"))], ["x", "y"], "n"
)


@pytest.fixture
def readings():
    return Readings(Codecs([Order, CODEC]))


def leaves(readings, codec, markup):
    return readings[codec.name].read_leaves(etree.fromstring(markup))


def test_marks_are_no_constraints_and_stay_out_of_the_schema(readings):
    codec = Codecs([Order]).of(Order)
    assert "destination" not in codec.xsd()
    assert codec.decode(etree.fromstring(codec.encode(ORDER))) == ORDER


def test_leaves_are_typed_and_named_as_the_fields_are(readings):
    codec = Codecs([Order]).of(Order)
    found = {leaf.path: leaf.value for leaf in leaves(readings, codec, codec.encode(ORDER))}
    assert found == {
        "number": 7,
        "to": "ann",
        "day": date(2026, 1, 31),
        "kind": "loud",
        "blob": "secret",
        "items[0].label": "a",
        "items[0].price": Decimal("1.50"),
        "tags[0]": "x",
        "tags[1]": "y",
        "note": "n",
    }


def test_marks_count_in_lists_in_unions_and_in_nested_classes(readings):
    codec = Codecs([Order]).of(Order)
    found = {leaf.path: leaf.standing for leaf in leaves(readings, codec, codec.encode(ORDER))}
    marked = {path: standing for path, standing in found.items() if standing is not None}
    assert marked == {
        "number": Standing.RECORD,
        "items[0].label": Standing.PROSE,
        "tags[0]": Standing.DIRECTORY,
        "tags[1]": Standing.DIRECTORY,
        "note": Standing.OWN,
    }
    assert readings[codec.name].roles == (("to", Role.DESTINATION), ("tags", Role.INERT))


def test_the_authors_constructor_is_not_called(readings):
    codec = Codecs([Order]).of(Order)
    markup = codec.encode(ORDER).replace(">ann<", ">boom<")
    assert leaves(readings, codec, markup)[1].value == "boom"


def test_an_empty_text_says_nothing(readings):
    codec = Codecs([Order]).of(Order)
    markup = codec.encode(ORDER).replace(">ann<", "><")
    assert "" not in list_texts(leaves(readings, codec, markup))


def test_an_unforeseen_payload_is_read_on_arrival():
    codecs = Codecs()
    readings = Readings(codecs)
    codec = codecs.of(Order)
    assert leaves(readings, codec, codec.encode(ORDER))[0].value == 7
    with pytest.raises(KeyError):
        readings["{urn:x}nobody"]


def test_hand_written_schemas_are_read_by_the_names_of_their_class(readings):
    markup = CODEC.encode(invoice(mail="ann@corp.example", copies=2))
    found = {leaf.path: leaf.value for leaf in leaves(readings, CODEC, markup)}
    assert found["number[0]"] == "AB-0001"
    assert found["mail[0]"] == "ann@corp.example"
    assert found["line[0].text[0]"] == "a"
    assert found["line[0].amount[0]"] == "1.50"


def test_the_text_of_a_hand_written_element_is_read_too():
    codec = BoundCodec(Binding(Receipt, SCHEMA, MONEY))
    readings = Readings(Codecs([codec]))
    found = {leaf.path: leaf.value for leaf in leaves(readings, codec, codec.example())}
    assert found == {"paid[0]": "2026-01-31", "value[0]": "AA-0000"}
    assert FOLDER.is_dir()


def test_a_channel_is_counted_from_the_schema(readings):
    codec = Codecs([Order]).of(Order)
    assert not readings[codec.name].channel.closed
