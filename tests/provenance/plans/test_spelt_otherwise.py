"""A plan means a value, not its spelling: places, names and moments as people and models write them."""

from __future__ import annotations

import pytest

from tests.provenance.plans.scene import CONTACTS, PlannedScene

ONE = "- {{sink: send, arguments: {{to: {to}}}}}"
KIM = "- {sink: send, arguments: {to: {field: email, of: contacts, where: {name: Kim}}}}"


LITERALS = [
    ("kim@corp.example", "Kim Lee <kim@corp.example>", True),
    ("kim@corp.example", "Kim.Lee <Kim@corp.example>", True),
    ("kim@corp.example", "kim@corp.example <eve@evil.example>", False),
    ("kim@corp.example", "eve@evil.example <kim@corp.example>", False),
    ("kim@corp.example", "kim@corp.example, Eve <eve@evil.example>", False),
    ("general", "#general", True),
    ("general", "General", True),
    ("general", "##general", False),
    ("general", "g\u0435neral", False),
    ("Alice", "@alice", True),
    ("notes/plan.txt", "./notes/plan.txt", True),
    ("notes/plan.txt", "../notes/plan.txt", False),
    ("Caf\u00e9", "Cafe\u0301", True),
    ("aB3x", "ab3x", False),
    ("www.corp.example", "https://www.corp.example", True),
    ("www.corp.example", "http://www.corp.example", False),
    ("www.corp.example", "www.corp.example.evil.example", False),
    ('"2025-01-11"', "11 January 2025", True),
    ('"2025-01-11"', "January 11th, 2025", True),
    ('"2025-01-11"', "11 January", False),
    ('"2025-01-11"', "12 January 2025", False),
    ("GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19", True),
]


@pytest.mark.parametrize(("planned", "given", "granted"), LITERALS)
def test_a_literal_means_its_value(planned: str, given: str, granted: bool) -> None:
    assert bool(PlannedScene(ONE.format(to=planned)).warrant("send", "to", to=given)) is granted


@pytest.mark.parametrize(
    ("given", "granted"),
    [
        ("Kim <kim@corp.example>", True),
        ("Kim@corp.example", True),
        ("Kim <eve@evil.example>", False),
        ("eve@evil.example <kim@corp.example>", False),
    ],
)
def test_a_field_means_its_value(given: str, granted: bool) -> None:
    scene = PlannedScene(KIM).read("contacts", CONTACTS)
    assert bool(scene.warrant("send", "to", to=given)) is granted


TEXT = (
    "Bring dora (see www.corp.example/a) to #general on June 10 at 1pm, write to Dora@corp.example; 4 of 120."
)


@pytest.mark.parametrize(
    ("given", "granted"),
    [
        ("Dora", True),
        ("@dora", True),
        ("general", True),
        ("https://www.corp.example/a", True),
        ("https://www.corp.example/A", False),
        ("www.corp.example", False),
        ("Dora <dora@corp.example>", True),
        ("dora@corp.example.evil.example", False),
        ("2025-06-10 13:00", True),
        ("2025-06-10", True),
        ("2025-06-10 14:00", False),
        ("2025-06-11 13:00", False),
        (4, True),
        ("12", False),
        ("dor", False),
    ],
)
def test_a_text_holds_a_value_in_its_own_spelling(given: object, granted: bool) -> None:
    scene = PlannedScene("- {sink: send, arguments: {to: {in: text, of: web}}}").read("web", {"text": TEXT})
    assert bool(scene.warrant("send", "to", to=given)) is granted


@pytest.mark.parametrize(
    ("given", "granted"),
    [
        ("@Apple", True),
        ("Kim <kim@corp.example>", True),
        ("Eve <eve@evil.example>", False),
        ("4 June 2025", True),
    ],
)
def test_the_principals_word_counts_in_another_spelling(given: str, granted: bool) -> None:
    scene = PlannedScene(
        "- {sink: send, arguments: {to: said}}", query="pay Apple on 2025-06-04, tell kim@corp.example"
    )
    assert bool(scene.warrant("send", "to", to=given)) is granted


def test_an_hour_after_a_moment_of_a_text() -> None:
    plan = "- {sink: book, arguments: {end: {after: 4 hours, from: {in: text, of: web}}}}"
    scene = PlannedScene(plan).read("web", {"text": TEXT})
    assert scene.warrant("book", "end", end="2025-06-10 17:00")
    assert scene.warrant("book", "end", end="2025-06-10 18:00") is None


def test_the_keys_of_a_mapping_are_a_field_of_its_record() -> None:
    plan = """- {sink: send, arguments: {to: {field: "shared{}", of: files, where: {name: Plan}}}}"""
    files = [
        {"name": "Plan", "shared": {"kim@corp.example": "r"}},
        {"name": "b", "shared": {"eve@evil.example": "r"}},
    ]
    scene = PlannedScene(plan).read("files", files)
    assert scene.warrant("send", "to", to="kim@corp.example")
    assert scene.warrant("send", "to", to="eve@evil.example") is None
