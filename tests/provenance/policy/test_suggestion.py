"""Proposed policies: what types and values suggest, that names suggest nothing, and that each is a policy."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import Mode, read_policy
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule
from agentserver.provenance.policy.suggestion import FieldForm, FieldShape, ListenerShape, suggest

TEXT = FieldForm.TEXT


def argument(form: FieldForm, *values: str) -> tuple[str, list[str]]:
    """The text that is proposed for one argument, and the roles that count of it."""
    text = suggest([ListenerShape("store", (FieldShape("x", form, values),))], "").format()
    (line,) = [line for line in text.splitlines() if re.match(r"[ #]*x:", line)]
    rules = [rule for sink in read_policy(text).sinks for rule in sink.arguments]
    return line.strip(), [rule.role.value for rule in rules]


@pytest.mark.parametrize(
    ("form", "role"),
    [
        (FieldForm.NUMBER, "quantity"),
        (FieldForm.TIME, "time"),
        (FieldForm.FLAG, "option"),
        (FieldForm.CHOICE, "selector"),
        (FieldForm.ADDRESS, "destination"),
    ],
)
def test_a_type_says_the_role_of_an_argument(form: FieldForm, role: str) -> None:
    line, roles = argument(form)
    assert line.startswith(f"x: {role}  # {form.value}")
    assert roles == [role]


def test_a_field_that_held_a_destination_once_is_one() -> None:
    line, roles = argument(TEXT, "ann@corp.example", "a word", "word")
    assert (line, roles) == (
        "x: destination  # 1 of 3 recorded values can receive something",
        ["destination"],
    )


def test_a_field_that_held_single_words_is_a_choice() -> None:
    assert argument(TEXT, "f-1", "f-2") == ("x: selector  # one word in 2 recorded values", ["selector"])


@pytest.mark.parametrize("values", [(), ("two words",), ("two words", "word")])
def test_unknown_fields_become_a_comment(values: tuple[str, ...]) -> None:
    line, roles = argument(TEXT, *values)
    assert line.startswith("#   x: payload  # or destination, selector, inert: ")
    assert roles == []


def worth(form: FieldForm, *values: str) -> tuple[FieldRule, ...]:
    shape = ListenerShape("store", (), (FieldShape("x", form, values),))
    return read_policy(suggest([shape], "").format()).fields


def test_a_field_that_held_words_or_an_address_is_prose_and_a_closed_type_is_a_record() -> None:
    assert worth(TEXT, "f-1", "two words") == (FieldRule("store", "x", Standing.PROSE),)
    assert worth(TEXT, "ann@corp.example") == (FieldRule("store", "x", Standing.PROSE),)
    assert worth(TEXT, "f-1") == worth(TEXT) == ()
    for form in set(FieldForm) - {TEXT, FieldForm.ADDRESS}:
        assert worth(form) == (FieldRule("store", "x", Standing.RECORD),)


def test_an_unknown_listener_is_source_and_sink_once_and_an_agent_relays() -> None:
    policy = read_policy(
        suggest([ListenerShape("store"), ListenerShape("clerk", agent=True)], "", mode="audit").format()
    )
    assert policy.sources == ("store",)
    assert [rule.name for rule in policy.sinks] == ["store"]
    assert policy.relays == ("clerk",)
    assert policy.mode is Mode.AUDIT


def test_a_declared_tool_gets_the_roles_that_its_types_state_and_nothing_else() -> None:
    takes = FieldShape("day", FieldForm.TIME), FieldShape("text", TEXT)
    tool = ListenerShape("far.book", takes, (FieldShape("id", TEXT),), declared=True)
    policy = read_policy(suggest([tool], "", alternatives=True).format())
    assert policy.sources == policy.fields == policy.trusted == ()
    assert [(rule.name, rule.arguments) for rule in policy.sinks] == [
        ("far.book", (ArgumentRule("day", Role.TIME),))
    ]


def test_where_everything_is_declared_the_proposal_is_empty() -> None:
    text = suggest([], "Nothing.").format()
    assert text == "# Of each listener something is declared.\n{}\n"
    assert read_policy(text).sources == ()


NAMES = st.from_regex(r"[A-Za-z_][\w.-]{0,12}", fullmatch=True) | st.sampled_from(
    ["null", "yes", "on", "é", "1", "\U00010000", "a\u2028", "x" * 200 + "é"]
)
VALUES = st.text(max_size=20) | st.sampled_from(
    ["ann@corp.example", "https://a.example/b", "f-1", "two words"]
)
SHAPES = st.builds(FieldShape, NAMES, st.sampled_from(FieldForm), st.lists(VALUES, max_size=3).map(tuple))
FIELDS = st.lists(SHAPES, max_size=3, unique_by=lambda one: one.path).map(tuple)
LISTENERS = st.lists(
    st.builds(ListenerShape, NAMES, FIELDS, FIELDS, st.booleans()), max_size=3, unique_by=lambda one: one.name
)


@given(LISTENERS, st.sampled_from(["", "audit"]))
def test_each_proposal_is_a_valid_policy_with_and_without_comment_marks(
    found: list[ListenerShape], mode: str
) -> None:
    text = suggest(found, "About.", mode=mode).format()
    policy = read_policy(text)
    assert {*policy.sources, *policy.relays} == {one.name for one in found}
    whole = "\n".join(re.sub(r"^( *)# (?=[ ]*[\w\"][^#]*:)", r"\1", line) for line in text.splitlines()[3:])
    if found:
        everything = read_policy(whole)
        tools = [one for one in found if not one.agent]
        assert sum(len(rule.arguments) for rule in everything.sinks) == sum(len(one.takes) for one in tools)
        assert len(everything.fields) == sum(len(one.says) for one in tools)


@pytest.mark.parametrize("name", ["t" * 1001, "\x01" * 300, " ", ""])
def test_a_name_that_no_policy_can_hold_is_left_out(name: str) -> None:
    field = FieldShape(name, FieldForm.NUMBER)
    text = suggest([ListenerShape(name), ListenerShape("send", (field,), (field,))], "About.").format()
    assert read_policy(text).sources == ("send",)
    assert "# Left out: 1 whose names are blank or too long for YAML.\n" in text


def test_a_long_name_of_several_words_stays_in_its_line() -> None:
    name = "words " * 40 + "end"
    assert read_policy(suggest([ListenerShape(name)], "About.").format()).sources == (name,)


def rename_fields(one: ListenerShape, number: int) -> ListenerShape:
    def fields(some: tuple[FieldShape, ...]) -> tuple[FieldShape, ...]:
        return tuple(FieldShape(f"f{index}", each.form, each.values) for index, each in enumerate(some))

    return ListenerShape(f"l{number}", fields(one.takes), fields(one.says), one.agent)


def roles(found: list[ListenerShape]) -> tuple[list[list[Role]], list[Standing]]:
    policy = read_policy(suggest(found, "").format())
    rules: list[tuple[ArgumentRule, ...]] = [rule.arguments for rule in policy.sinks]
    return [[rule.role for rule in one] for one in rules], [rule.standing for rule in policy.fields]


@given(LISTENERS)
def test_no_name_decides(found: list[ListenerShape]) -> None:
    assert roles(found) == roles([rename_fields(one, number) for number, one in enumerate(found)])


def test_no_recorded_value_is_shown() -> None:
    field = FieldShape("x", TEXT, ("zq-4417", "zq@corp.example"))
    assert "zq" not in suggest([ListenerShape("store", (field,), (field,))], "").format()
