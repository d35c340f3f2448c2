"""Templates: allowed contents, and the removal of a clause with its absent value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.handoff.intents import LONGEST, TemplateError, parse


def test_an_absent_value_takes_its_sentence_along():
    template = parse("Run the sweep. If a hint was given, put it first: {clause}.\nStop at {limit}! Report.")
    assert template.render({"clause": "4.2", "limit": "9"}) == (
        "Run the sweep. If a hint was given, put it first: 4.2.\nStop at 9! Report."
    )
    assert template.render({"limit": "9"}) == "Run the sweep. Stop at 9! Report."
    assert (
        template.render({"clause": "4.2"})
        == "Run the sweep. If a hint was given, put it first: 4.2.\nReport."
    )
    assert template.render({}) == "Run the sweep. Report."


@pytest.mark.parametrize(
    ("text", "values", "rendered"),
    [
        ("From {a} to {b}. Go.", {"a": "x"}, "Go."),
        ("Read {a}\nThen write {b}", {"b": "x"}, "Then write x"),
        ("Use {{x}} and {a}.", {"a": "1"}, "Use {x} and 1."),
    ],
    ids=["one absent value of two is enough", "a line is a clause", "braces can be written"],
)
def test_a_clause_without_all_of_its_values_is_left_out(text, values, rendered):
    assert parse(text).render(values) == rendered


def test_the_text_without_optional_values_is_known():
    assert parse("A. {b}.").holds_with(frozenset())
    assert not parse("{a} {b}.").holds_with(frozenset({"a"}))
    assert parse("{a} x").names == {"a"}


def test_a_point_inside_a_word_ends_no_clause():
    assert len(parse("Read ./out/{a}.md now.").clauses) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "  \n", "x" * (LONGEST + 1), "a {", "a }", "{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>9}"),
        *("{a b}", "{A-B}", "x\x00", "x\u200by", "x\u202ey", "x\u2066y", "{a{b}}", "{__class__.x}"),
    ],
)
def test_nothing_but_names_is_interpolated(text):
    with pytest.raises(TemplateError):
        parse(text)


@given(st.text("ab.!? \n{}", max_size=40))
def test_a_template_without_values_renders_as_it_is(text):
    try:
        template = parse(text)
    except TemplateError:
        return
    if not template.names:
        assert template.render({}) == text.replace("{{", "{").replace("}}", "}").strip()


@given(
    st.lists(
        st.sampled_from(["100% of {a}. ", "%s %(a)s! ", "{b}? ", "\n", "{{a}} ", "x {a}{b}. "]), min_size=1
    ),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from(["1", "%s", "%(b)s", "{a}", "%"])),
)
def test_a_text_is_built_from_its_clauses(said, values):
    try:
        template = parse("".join(said))
    except TemplateError:
        return
    clauses = [[(text, values.get(name, "")) for text, name in clause] for clause in template.clauses]
    kept = [
        "".join(text + value for text, value in clause)
        for clause, pieces in zip(clauses, template.clauses, strict=True)
        if all(name is None or name in values for _, name in pieces)
    ]
    assert template.render(values) == "".join(kept).strip()
