"""The kinds of details: each is kept, shown by name, cleaned and put into words."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.codec import ValueRefusedError
from agentserver.core.encoding.codecs import derive_stored
from agentserver.core.records.details import (
    NAMES,
    WORDS,
    Detail,
    GuardNote,
    HandoffAttempt,
    list_words,
    map_texts,
)
from agentserver.core.records.wording import LINES, WORDING
from agentserver.observers import fields
from tests.core.samples import FOUND, SAMPLES, alter_words

KINDS = set(get_args(Detail))
KEPT = derive_stored(Detail | None)


def test_every_kind_is_in_every_table_and_among_the_samples():
    assert set(NAMES) == set(LINES) == {type(one) for one in SAMPLES} == KINDS
    assert len(set(NAMES.values())) == len(NAMES)


def nested_types(value):
    """The types of all named tuples in a value."""
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            yield type(value)
        for each in value:
            yield from nested_types(each)


def test_every_part_of_a_kind_says_which_fields_are_words():
    parts = {kind for one in SAMPLES for kind in nested_types(one)}
    assert parts == set(WORDS)
    assert all(names <= set(kind._fields) for kind, names in WORDS.items())


@pytest.mark.parametrize("detail", SAMPLES, ids=lambda one: NAMES[type(one)])
def test_a_stored_detail_decodes_to_an_equal_one(detail):
    assert KEPT.load(KEPT.dump(detail)) == detail


def test_the_absence_of_a_detail_is_none():
    assert KEPT.load(KEPT.dump(None)) is None
    assert fields(None) is None


@given(st.text(min_size=1), st.text())
def test_any_words_are_kept(text, guard):
    assert KEPT.load(KEPT.dump(GuardNote(guard, text))) == GuardNote(guard, text)


@pytest.mark.parametrize(
    "plain", ["words", ["nothing"], ["failure"], ["failure", "x", "y"], 3, "", ["grounds", "x", []]]
)
def test_an_invalid_detail_is_an_error(plain):
    with pytest.raises(ValueRefusedError):
        KEPT.value(plain)


@pytest.mark.parametrize("detail", SAMPLES, ids=lambda one: NAMES[type(one)])
def test_programs_get_names_and_json(detail):
    found = fields(detail)
    assert json.loads(json.dumps(found)) == found
    assert found["kind"] == NAMES[type(detail)]
    assert set(found) == {"kind", *detail._fields}


@pytest.mark.parametrize("detail", SAMPLES, ids=lambda one: NAMES[type(one)])
def test_cleaning_changes_words_and_nothing_else(detail):
    """No name of a kind, no token and no hash goes, whatever a secret happens to be."""
    assert map_texts(detail, str) == detail
    gone = map_texts(detail, lambda text: text and "[gone]")
    assert set(list_words(gone)) <= {"[gone]", ""}
    assert len(WORDING.describe_lines(gone)) <= len(WORDING.describe_lines(detail))
    assert KEPT.load(KEPT.dump(gone)) == gone


def test_a_secret_that_is_a_token_of_ours_leaves_the_layout():
    assert len(WORDING.describe_lines(map_texts(FOUND, lambda text: text.replace("deny", "*")))) == len(
        WORDING.describe_lines(FOUND)
    )


def test_the_line_of_a_handoff_names_the_intent_if_there_is_one():
    attempts = (one for one in SAMPLES if isinstance(one, HandoffAttempt))
    assert list(map(WORDING.first, attempts)) == ["approve review", "reject: schema", "reject review: schema"]


# A change of wording


@pytest.mark.parametrize("where", ["", "/trace"])
@pytest.mark.parametrize("detail", SAMPLES, ids=lambda one: NAMES[type(one)])
def test_no_layout_depends_on_a_phrase(detail, where):
    ours, other = WORDING.describe_lines(detail, where), alter_words().describe_lines(detail, where)
    assert len(ours) == len(other)
    assert ours
    for one, two in zip(ours, other, strict=True):
        for text in list_words(detail):
            assert "\n" in text or len(text) < len("some") or (text in one) == (text in two)
