"""Laws of showing and substituting references, for any payload class."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from annotated_types import Interval, Len
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from agentserver import Attribute, Pattern, xmlify
from agentserver.core.messages import Delivery, Draft
from agentserver.core.refusals import Refusal
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.guards.lineage.hiding import count_closed_bits
from agentserver.guards.lineage.memory import Memory
from agentserver.guards.lineage.reading import list_places
from agentserver.guards.lineage.references import FORM, References, make_reference, stamp_message
from agentserver.guards.lineage.viewer import find_refusing_fields
from agentserver.payload.codec import Codecs
from agentserver.provenance import Policy
from agentserver.wire.envelope import canonical
from tests.core.strategies import classes, values

POLICY = Policy(sources=("page",), sinks=(), relays=("planner",))
ROOM = 1 << 20


def show_payload(cls, value, policy=POLICY):
    """The payload, as it was and as it is shown, and the guard's memory after that."""
    codecs = Codecs([cls])
    codec = codecs.of(cls)
    guard = LineageGuard(TrustSettings(policy, viewers=frozenset({"planner"})), ["page", "planner"], codecs)
    element = etree.fromstring(codec.encode(value))
    delivery = Delivery("d-1", "c", "r", "t", "o", "page", "planner", codec.name, b"", 2)
    before = canonical(element)
    seen = guard.present(Memory(), delivery, element)
    assert canonical(element) == before
    return guard, codec, element, seen, guard.observe(Memory(), delivery, element, 0.0)


def put_in(guard, codec, memory, element, thread="t"):
    markup = canonical(element).decode()
    found = guard.resolve(memory, Draft("page", codec.name, markup, element), thread, ROOM)
    return element if found is None else found.element


def payload(made):
    return xmlify(made)


@settings(deadline=None)
@given(st.data())
def test_substituted_values_are_the_hidden_ones_and_nothing_untrusted_is_shown(data):
    cls = payload(data.draw(classes()))
    value = data.draw(values(cls.__payload__.record))
    guard, codec, element, seen, memory = show_payload(cls, value)
    if isinstance(seen, Refusal):
        assert any(required for _, required in find_refusing_fields(codec)) or codec.described is None
        return
    assert codec.valid(seen)
    codec.decode(seen)
    for place in list_places(codec, seen):
        assert count_closed_bits(place.kind) is not None or FORM.fullmatch(place.text) or not place.text
    kept = {place.path: place.text for place in list_places(codec, element)}
    back = put_in(guard, codec, memory, seen)
    again = {place.path: place.text for place in list_places(codec, back)}
    left_out = sum(1 for _ in element.iter()) - sum(1 for _ in seen.iter())
    if again.keys() == kept.keys() and not left_out:
        assert canonical(back) == canonical(element)
    elsewhere = put_in(guard, codec, memory, seen, "another")
    assert elsewhere is None or canonical(elsewhere) == canonical(seen)


@xmlify
@dataclass(frozen=True)
class Line:
    text: str
    mark: Annotated[str, Attribute()] = ""


@xmlify
@dataclass(frozen=True)
class Page:
    title: str
    lines: list[Line] = field(default_factory=list)
    open: bool = False


@given(
    st.builds(
        Page, st.text(st.characters(codec="utf-8", exclude_categories=["C"])), st.just([]), st.booleans()
    )
)
def test_a_page_is_restored_unchanged(page):
    guard, codec, _, seen, memory = show_payload(Page, page)
    assert codec.decode(seen) != page or not page.title
    assert codec.decode(put_in(guard, codec, memory, deepcopy(seen))) == page


def test_every_scalar_has_a_reference_of_its_own():
    page = Page("t", [Line("a", "m"), Line("a", "m")])
    _, codec, _, seen, memory = show_payload(Page, page)
    found = [place.text for place in list_places(codec, seen) if FORM.fullmatch(place.text)]
    assert len(found) == len(set(found)) == 5
    assert {each.path for each in memory.references.known.values()} == {
        "title", "lines[0].text", "lines[0].mark", "lines[1].text", "lines[1].mark",
    }  # fmt: skip


def test_a_reference_depends_on_all_that_it_is_bound_to():
    made = {
        make_reference(*bound)
        for bound in [("c", "t", "d", "p"), ("x", "t", "d", "p"), ("c", "x", "d", "p"), ("c", "t", "x", "p"),
                      ("c", "t", "d", "x")]
    }  # fmt: skip
    assert len(made) == 5
    assert all(map(FORM.fullmatch, made))
    assert make_reference("c", "t", "d", "p") in made


def test_a_stamp_tells_texts_apart_wherever_they_are_cut():
    assert stamp_message("t", "r", ["ab", "c"]) != stamp_message("t", "r", ["a", "bc"])


def test_references_grow_at_the_end_and_are_read_back():
    assert References.load([], []) == References()


@xmlify
@dataclass(frozen=True)
class Choosy:
    code: Annotated[str, Pattern("[A-Z]{3}")]
    count: int
    name: str
    short: Annotated[str, Len(1, 20)] = "x"
    share: float | None = None
    level: Annotated[int, Interval(ge=1, le=8)] = 1
    kind: Literal["a", "b"] = "a"


def test_fields_that_take_no_reference_are_known_from_the_type():
    assert list(find_refusing_fields(Codecs([Choosy]).of(Choosy))) == [
        ("code", True), ("count", True), ("short", False), ("share", False),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["level", "kind"])
def test_bits_of_closed_types(name):
    record = Choosy.__payload__.record
    kind = next(each.type for each in record.fields if each.name == name)
    assert count_closed_bits(kind) == {"level": 3.0, "kind": 1.0}[name]
