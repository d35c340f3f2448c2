"""The form of a value decides its effect and its rank, whatever its field is called."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance.evidence.destinations import loosen, parse_list
from agentserver.provenance.evidence.inventory import is_file
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.forms import (
    CHOICE,
    RECORD,
    WORDS,
    derive_role,
    derive_standing,
    has_prose,
    is_long,
    is_object_id,
    is_running_text,
    names_receiver,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.text(st.characters(exclude_categories=()))
)
ODD: list[Any] = [
    float("nan"), float("inf"), -float("inf"), Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity"), Decimal("1E+999999"), 10**400,
    "", " ", "\n", "@", "//", "://", "http://[", "\ud800", "a@b@c", "<>", '"', ",", ";", "xn--", "\u200b", "x" * 70_000, "@a." * 300_000,
]  # fmt: skip


@given(SCALARS)
def test_every_scalar_has_a_role_and_a_worth(value: Any) -> None:
    assert derive_role(value) in Role
    assert derive_standing("field", value) in {Standing.PROSE, Standing.RECORD}


@pytest.mark.parametrize("value", ODD, ids=lambda value: ascii(value)[:20])
def test_odd_values_have_a_role_and_a_worth(value: Any) -> None:
    assert derive_role(value) in Role
    assert derive_standing("field", value) in {Standing.PROSE, Standing.RECORD}


@pytest.mark.parametrize(
    "value",
    [
        "bob@corp.com",
        "Bob <bob@corp.com>",
        "bob@corp.com, eve@evil.example",
        "bob@corp.com\neve@evil.example",
        "a@b.co c@d.co e@f.co g@h.co",
        "a@b.co; " * 20,
        "a@b.co|c@d.co",
        "https://corp.com/\neve@evil.example",
        "https://corp.com/docs?q=1",
        f"https://{'corp.com' * 40}/",
        "//corp.com/docs",
        "corp.com",
        "corp.com:8080",
        "c\uff4frp.com",
        "corp\uff0ecom",
        "corp.com/docs",
        "1.2.3.4",
        "mailto:bob@corp.com",
        "mail bob@corp.com now",
        "see https://corp.com/docs",
        "DE89 3704 0044 0532 0130 00",
        "DE89370400440532013000",
    ],
)
def test_values_that_can_receive_are_destinations_and_their_authors(value: str) -> None:
    assert names_receiver(value)
    assert derive_role(value) is Role.DESTINATION
    assert derive_standing("to", value) is Standing.PROSE


@pytest.mark.parametrize(
    "value",
    [
        "general",
        "4711-a",
        "draft.txt",
        "@handle",
        "doc:12",
        "hunter2",
        "#1190",
        "13",
        "2025-01-02",
        "plan.md",
        "a\u00f1o",
    ],
)
def test_a_single_word_is_a_choice_and_bookkeeping(value: str) -> None:
    assert derive_role(value) is Role.SELECTOR
    assert derive_standing("f", value) is (Standing.PROSE if value == "@handle" else Standing.RECORD)


@pytest.mark.parametrize(
    ("value", "role"),
    [
        ("2027-08-31 15:30", Role.TIME),
        ("31. August 2027 um 15 Uhr", Role.TIME),
        ("Tuesday, 31 August 2027", Role.TIME),
        ("EUR 900", Role.QUANTITY),
        ("900 euros", Role.QUANTITY),
        ("9 000", Role.QUANTITY),
        ("€450.00", Role.QUANTITY),
        ("1908.17", Role.SELECTOR),
        ("Lunch on 31 August 2027", Role.PAYLOAD),
        ("+49 4421 555019", Role.SELECTOR),
        ("(555) 010-9999", Role.SELECTOR),
        ("٠١٧٠ ٥٥٥ ٠١٠٢", Role.SELECTOR),
        ("12 : 14", Role.PAYLOAD),
        ("order 900", Role.PAYLOAD),
        ("12 rolls", Role.PAYLOAD),
    ],
)
def test_a_text_that_is_a_moment_or_a_sum_as_a_whole_has_its_role(value: str, role: Role) -> None:
    assert derive_role(value) is role


@pytest.mark.parametrize(
    "value",
    [
        "two words",
        "delete the file",
        "Write to me at bob@corp.com as soon as you can.",
        "a\nb",
        "3 of 4",
        "Bob Miller",
    ],
)
def test_several_words_are_said(value: str) -> None:
    assert derive_role(value) is Role.PAYLOAD
    assert derive_standing("f", value) is Standing.PROSE


@pytest.mark.parametrize(
    "value",
    [
        "2025-01-02 09:00",
        "2025-01-02T09:00:00+01:00",
        "2025-01-02T09:00:00Z",
        "09:30 AM",
        "02.01.2025",
        "12 30",
    ],
)
def test_a_moment_in_digits_is_bookkeeping(value: str) -> None:
    assert derive_standing("f", value) is Standing.RECORD


@pytest.mark.parametrize(
    "value", ["1 delete file draft.txt now", "2. see evil.example/x for more", "3pm: mail Eve"]
)
def test_a_sentence_that_begins_with_a_number_is_its_authors(value: str) -> None:
    assert derive_standing("title", value) is Standing.PROSE


@pytest.mark.parametrize("value", [100, 2.5, Decimal("19.99"), -100, 10**40, float("inf"), Decimal("sNaN")])
def test_a_number_with_a_meaning_is_a_quantity(value: Any) -> None:
    assert derive_role(value) is Role.QUANTITY


@pytest.mark.parametrize("value", [0, 7, -5, 99, 5.0, True, False, None])
def test_counts_flags_and_none_are_inert(value: Any) -> None:
    assert derive_role(value) is Role.INERT


@pytest.mark.parametrize("value", [date(2025, 1, 2), time(9, 30), datetime(2025, 1, 2, 9, 30, tzinfo=UTC)])
def test_a_moment_is_a_time(value: Any) -> None:
    assert derive_role(value) is Role.TIME
    assert derive_standing("at", value) is Standing.RECORD


def test_no_form_makes_a_directory_or_an_own_field() -> None:
    values: list[Any] = ["bob@corp.com", "https://corp.com", "bob", 5, None, date(2025, 1, 2), "two words"]
    found = {
        derive_standing(path, value) for path in ("", "contact.email", "participants") for value in values
    }
    assert found == {Standing.PROSE, Standing.RECORD}


def test_a_word_that_is_no_field_of_a_structure_is_its_authors() -> None:
    """A page that says one word chose it; the field of a record is filled by a system."""
    assert derive_standing("", "hunter2") is Standing.PROSE
    assert derive_standing("id", "hunter2") is Standing.RECORD


@given(st.text(min_size=1, max_size=12).filter(str.isidentifier), st.text(min_size=1, max_size=12))
def test_the_name_of_a_field_changes_nothing(name: str, value: str) -> None:
    assert (
        derive_standing(name, value)
        is derive_standing("participants", value)
        is derive_standing("body", value)
    )


def test_endless_values_and_those_too_long_for_a_record() -> None:
    assert not is_running_text("one two three")
    assert is_running_text("one two three four")
    assert is_running_text("x" * (CHOICE + 1))
    assert is_running_text("a\nb")
    assert not is_long("x" * RECORD)
    assert is_long("x" * (RECORD + 1))
    assert is_long("a\nb")
    assert not is_long(" a \n")


def test_informative_values_are_sentences_or_places_in_text() -> None:
    assert has_prose("Alice needs www.evil.example")
    assert has_prose("to mallory@evil.example")
    assert has_prose("delete what you sent")
    assert not has_prose("Le Grand Hotel")
    assert not has_prose("https://drive.example/" + "x" * 80)
    assert not has_prose("ann@corp.com, bob@corp.com; carl@corp.com dora@corp.com")
    assert not has_prose("")


def split_parts(text):
    return [part for part in re.split(r"[\s,;|]+", text.strip()) if part]


def names_receiver_at_length(text):
    """Check for a receiver with all words of the text, as the first form of the check did."""
    body, parts = text.strip(), split_parts(text)
    if not forms._MARK.search(body) or is_file(body) or is_object_id(body):
        return False
    if any(places and all(map(forms._receives, places)) for places in map(parse_list, (body, loosen(body)))):
        return True
    if parts and all(map(forms._word_receives, parts)):
        return True
    slashed = "://" in body or ("//" in body and len(body) <= CHOICE)
    return len(body.split()) <= WORDS and (slashed or ("@" in body[1:] and "." in body))


def has_prose_at_length(text):
    received = [forms._word_receives(part) for part in split_parts(text)]
    if len(text.split()) > WORDS and len(received) > WORDS:
        return not all(received)
    return 0 < sum(received) < len(received)


PIECES = [
    "a@b.com",
    "bob",
    "b.com",
    "https://b.com/x",
    ",",
    ";",
    " ",
    "\n",
    "|",
    "//",
    "x.pdf",
    "@",
    "é",
    "1",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_text_is_read_only_as_far_as_its_form_is_open(pieces):
    for each in ("".join(pieces), " ".join(pieces)):
        assert names_receiver(each) is names_receiver_at_length(each)
        assert has_prose(each) is has_prose_at_length(each)
