"""Plain error messages for unreadable YAML."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.remedies.yaml_syntax import explain_error
from tests.fuzzing import examples


def mistake(text):
    """Return line and message of a text's error; None when it can be read."""
    try:
        yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return explain_error(error, text)
    except yaml.YAMLError:
        return None
    return None


HEAD = "name: d\nlisteners:\n"


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (HEAD + "\t- name: say\n", 3, "a tab where YAML permits only spaces: replace it by spaces"),
        (HEAD + "  - name: say\n\t  handler: m.say\n", 4, "a tab where YAML permits only spaces"),
        (
            HEAD + "  - name: say\n   handler: m.say\n",
            4,
            "is indented by 3 spaces, unlike the lines around it (line 3 has 4)",
        ),
        ("name: d\n listeners:\n", 2, "is indented by 1 space, unlike the lines around it (line 1 has 0)"),
        (
            "name: d\nlisteners\n  - name: say\n",
            2,
            '"listeners" is no key: write a colon and a space after it',
        ),
        ("name d\nlisteners: []\n", 1, '"name d" is no key: write a colon and a space after it'),
        ("name:d\nlisteners: []\n", 1, 'a space is missing after the colon: "name: d"'),
        (
            "name: d\nwhy: a: b\n",
            2,
            "the value of why holds a colon and a space: put quotation marks around it",
        ),
        ('name: "d\nlisteners: []\n', 1, "a quotation mark is opened here and not closed"),
        ("name: d\nlisteners: [\n", 2, "a bracket is opened here and not closed"),
        ("name: d\nlisteners: [a,\n  b\n", 2, "a bracket is opened here and not closed"),
        ("name: d\npeers: [*]\n", 2, "a value that begins with * needs quotation marks around it"),
        ("name: *all\n", 1, "*all is an alias without an anchor &all: quote text"),
        ("name: d\n---\nname: e\n", 2, "a second document begins here: take the line of three hyphens out"),
        ("name: d\nl:\n  - peers: [a] b\n    c: d\n", 3, '"b" follows a value that is whole: take it out'),
        ("name: @d\n", 1, "a value that begins with @ needs quotation marks around it"),
    ],
)
def test_typical_mistakes_are_named_where_they_were_made(text, line, told):
    at, words = mistake(text)
    assert (at, words[: len(told)]) == (line, told)


PIECES = [
    "a",
    "b: ",
    "- ",
    "\n",
    "\n  ",
    "\n   ",
    "\t",
    "[",
    "]",
    "{",
    "}",
    ", ",
    '"',
    "'",
    "@",
    "%",
    ":",
    "|\n",
    "&x ",
    "*y",
    "\x85",
]


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_mistake_has_a_line_of_the_text_and_words(text):
    found = mistake(text)
    if found is not None:
        line, words = found
        assert 1 <= line <= len(text.splitlines()) + 1
        assert words
        assert "\n" not in words
