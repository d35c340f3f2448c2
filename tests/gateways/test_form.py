from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.gateways.form import (
    MAX_ITEMS,
    FormMisfit,
    compose,
    find_text_field,
    list_field_names,
    list_form_fields,
    takes,
)
from agentserver.payload.codec import Codecs
from agentserver.wire import envelope
from tests.gateways.payloads import Add, Colour, Greet, Item, Order, Ping, Wait

CODECS = Codecs([Greet, Add, Wait, Order, Ping])
SHOP = CODECS.of(Order)


def decode_form(cls, values):
    data = compose(CODECS.of(cls), values)
    assert isinstance(data, bytes), data
    return CODECS.of(cls).decode(envelope.read_payload(data))


def test_fields_by_name_become_the_payload():
    assert decode_form(Add, [("b", "-2"), ("a", " 1 ")]) == Add(1, -2)


def test_nested_fields_lists_and_attributes():
    values = [
        ("items.1.sku", "b"),
        ("items.0.sku", "a"),
        ("items.1.count", "3"),
        ("who", "Ada"),
        ("no", "7"),
        ("colour", "red"),
        ("tags", "x"),
        ("tags", "y z"),
        ("gift.sku", "g"),
    ]
    assert decode_form(Order, values) == Order(
        "Ada", 7, Colour.RED, [Item("a"), Item("b", 3)], ["x", "y z"], Item("g")
    )


def test_the_python_name_and_the_elements_name_both_serve():
    assert decode_form(Order, [("who", "Ada"), ("number", "7")]) == decode_form(
        Order, [("who", "Ada"), ("no", "7")]
    )


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"], exclude_characters="\ufffe\uffff")
    )
)
def test_a_text_arrives_as_it_was_typed(text):
    assert decode_form(Greet, [("name", text)]) == Greet(text)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([("wh", "x")], "wh: no such field; did you mean who?"),
        (
            [("zzz", "x")],
            "zzz: no such field; there are: who, no, colour, items.sku, items.count, tags, gift.sku, gift.count",
        ),
        ([("who", "x"), ("who", "y")], "who: is given twice"),
        ([("who.x", "x")], "who.x: who holds no further fields"),
        ([("gift", "x")], "gift: holds fields of its own: sku, count"),
        ([("gift.1.sku", "x")], "gift.1.sku: gift has no item 1"),
        ([(f"items.{MAX_ITEMS}.sku", "x")], f"items.{MAX_ITEMS}.sku: items has no item {MAX_ITEMS}"),
        ([("who", "\x1b")], "a value holds a character that XML cannot carry"),
        ([("who", "x"), ("no", "many")], "no: must be integer"),
        ([], "Order: missing element who: text"),
        ([("who", "x"), ("items.0.sku", "a"), ("items.1.count", "x")], "items.1.count: must be integer"),
        ([("who", "x"), ("items.0.sku", "a"), ("items.1.count", "3")], "items.1: missing element sku: text"),
        ([("who", "x"), ("gift.count", "x")], "gift.count: must be integer"),
        ([("who", "x"), ("items.2.sku", "a")], "items.0: is left out, and items.2 is given"),
        (
            [("who", "x"), ("items.0.sku", "a"), ("items.2.sku", "a")],
            "items.1: is left out, and items.2 is given",
        ),
    ],
)
def test_an_unsuitable_value_is_named(values, line):
    made = compose(SHOP, values)
    assert isinstance(made, FormMisfit)
    assert line in made.lines


def test_every_field_is_described_as_it_is_typed():
    shown = {field.name: field for field in list_form_fields(SHOP)}
    assert [*shown] == [
        "who", "no", "colour", "items.N.sku", "items.N.count", "tags", "gift.sku", "gift.count",
    ]  # fmt: skip
    assert shown["who"].required
    assert shown["tags"].repeated
    assert shown["colour"].choices == ("red", "blue")
    assert shown["items.N.count"].default == "1"
    assert list_form_fields(SimpleNamespace(name="{urn:x}y", payload=int)) == ()


def test_a_codec_without_a_table_takes_no_fields():
    bare = SimpleNamespace(name="{urn:x}y", payload=int)
    assert compose(bare, []) == FormMisfit(("{urn:x}y has no field table: send it as XML",))
    assert find_text_field(bare) is None
    assert list_field_names(bare) == ()
    assert not takes(bare, "a")


@pytest.mark.parametrize(
    ("cls", "name"), [(Greet, "name"), (Order, "who"), (Add, None), (Wait, None), (Ping, None)]
)
def test_a_bare_text_is_for_one_required_text(cls, name):
    assert find_text_field(CODECS.of(cls)) == name


def test_names_for_completion():
    assert list_field_names(SHOP) == (
        "who",
        "no",
        "colour",
        "items.sku",
        "items.count",
        "tags",
        "gift.sku",
        "gift.count",
    )
    assert takes(SHOP, "items.0.sku")
    assert not takes(SHOP, "item")
