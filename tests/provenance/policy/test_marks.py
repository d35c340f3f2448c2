"""Marks of fields: what each says, which contradict each other, and that schemas do not know them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import xmlify
from agentserver.payload.codec import Codecs
from agentserver.provenance import Amount, Destination, Id, Link, Readers, Secret
from agentserver.provenance.evidence.labels import Call, Leaf, Role, Standing
from agentserver.provenance.policy.declarations import ArgumentRule, Policy, SinkRule
from agentserver.provenance.policy.marks import read_marks

FileId = Id["file"]
FolderId = Id["folder"]
PageId = Id["page"]


@xmlify
@dataclass(frozen=True)
class Entry:
    file: FileId
    title: str


@xmlify
@dataclass(frozen=True)
class Entries:
    entries: list[Entry]
    row: Annotated[int, Id("row")]
    key: Secret
    parents: list[FolderId]
    next: PageId | None = None


@xmlify
@dataclass(frozen=True)
class Pay:
    to: Destination
    see: Link
    amount: Amount
    key: Secret
    files: list[FileId]


def test_each_mark_states_the_effect_and_rank_of_its_field() -> None:
    marks = read_marks(Pay)
    assert dict(marks.roles) == {
        "to": Role.DESTINATION,
        "see": Role.DESTINATION,
        "amount": Role.QUANTITY,
        "key": Role.SELECTOR,
        "files": Role.SELECTOR,
    }
    assert marks.standings == (("files", Standing.RECORD),)
    assert marks.ids == (("files", "file"),)
    assert [(path, mark.entries) for path, mark in marks.readers] == [("key", ("principal",))]


def test_the_leaves_of_ids_are_records_of_their_kind() -> None:
    found = read_marks(Entries).mark_leaves(Entries([Entry("f-1", "words")], 7, "s", ["d-1"], "p-2"))
    assert {leaf.path: (leaf.standing, leaf.id) for leaf in found if leaf.path != "key"} == {
        "entries[0].file": (Standing.RECORD, "file"),
        "entries[0].title": (None, ""),
        "row": (Standing.RECORD, "row"),
        "parents[0]": (Standing.RECORD, "folder"),
        "next": (Standing.RECORD, "page"),
    }


def test_the_kind_of_an_argument_is_its_type_s_and_else_the_policy_s() -> None:
    own = ArgumentRule("*", Role.INERT, ("box.id",), "mail")
    policy = Policy(sinks=(SinkRule("pay", (own,)),))
    marks = read_marks(Pay)
    call = Call("pay", (Leaf("files[1]", "x"), Leaf("to", "y")), 1, roles=marks.roles, ids=marks.ids)
    assert policy.argument_rule(call, call.arguments[0]) == replace(own, role=Role.SELECTOR, id="file")
    assert policy.argument_rule(call, call.arguments[1]) == replace(own, role=Role.DESTINATION)
    bare = Policy().argument_rule(call, call.arguments[0])
    assert bare == ArgumentRule("files", Role.SELECTOR, id="file")


def mark_class(hint: Any) -> type:
    return dataclass(type("Marked", (), {"__annotations__": {"a": hint}, "__module__": __name__}))


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (Annotated[str, Id("a"), Id("b")], r"'a' is marked Id\[\"a\"\] and Id\[\"b\"\]"),
        (Annotated[str, Id("a"), Standing.PROSE], r"'a' is marked Id\[\"a\"\] and prose; no id is prose"),
        (
            Annotated[str, Id("a"), Role.PAYLOAD],
            r"'a' is marked Id\[\"a\"\] and payload; an id is a selector",
        ),
        (Annotated[Destination, Id("a")], r"'a' is marked Id\[\"a\"\] and destination"),
        (Annotated[Destination, Role.INERT], "'a' is marked destination and inert"),
        (Annotated[Secret, Role.PAYLOAD], "'a' is marked selector and payload"),
        (Annotated[Entry, Id("a")], r"'a' is marked Id\[\"a\"\], and holds fields"),
    ],
)
def test_marks_that_contradict_each_other_are_an_error(hint: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        read_marks(mark_class(hint))


@pytest.mark.parametrize("standing", [Standing.RECORD, Standing.DIRECTORY, Standing.OWN])
def test_an_id_may_have_a_better_rank(standing: Standing) -> None:
    marks = read_marks(mark_class(Annotated[str, Id("a"), standing]))
    assert marks.standings == (("a", standing),)
    assert marks.roles == (("a", Role.SELECTOR),)


@pytest.mark.parametrize("kind", ["", "  ", 3, None])
def test_an_id_of_nothing_is_an_error(kind: Any) -> None:
    with pytest.raises(ValueError, match="names no kind of thing"):
        Id(kind)
    with pytest.raises(ValueError, match="names no kind of thing"):
        Id[kind]


@xmlify
@dataclass(frozen=True)
class Plain:
    to: str
    see: str
    amount: Decimal
    key: str
    files: list[str]


def test_a_schema_does_not_know_the_marks() -> None:
    codecs = Codecs([Pay, Plain])
    assert codecs.of(Plain).xsd().replace("Plain", "Pay") == codecs.of(Pay).xsd()


@given(st.text(min_size=1).filter(str.strip))
def test_both_ways_to_write_an_id_say_the_same(kind: str) -> None:
    short, long = read_marks(mark_class(Id[kind])), read_marks(mark_class(Annotated[str, Id(kind)]))
    assert short == long
    assert short.ids == (("a", kind.strip()),)


def test_readers_and_a_secret_add_up() -> None:
    marks = read_marks(mark_class(Annotated[Secret, Readers("@desk.example")]))
    assert [mark.entries for _, mark in marks.readers] == [("principal",), ("@desk.example",)]
