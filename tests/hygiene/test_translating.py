"""Plain expressions are translated as elementpath translates them, without it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from elementpath.regex import RegexError, translate_pattern
from hypothesis import given
from hypothesis import strategies as st

from agentserver.hygiene import regex
from agentserver.hygiene.translating import translate
from tests.machine import HANGS

PIECES = (
    *"abxyzAZ09-^.?*+|(){}[],$ _@~!\\",
    "[a-z]", "[A-Za-z0-9._%+\\-]", "[^ab]", "[!-~]", "[ab-d]", "[+-.]", "[z-a]", "[a-]", "[-a]", "[\\\\d]", "[\\d]",
    "{2}", "{2,}", "{2,3}", "{3,2}", "(ab|c)", "(?:a)", "\\.", "\\-", "\\d", "\\D", "\\w", "\\p{L}", "[a-z-[b]]", "é",
)  # fmt: skip


def by_elementpath(text):
    try:
        return translate_pattern(text, back_references=False, lazy_quantifiers=False, anchors=False)
    except RegexError:
        return None


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_is_translated_here_is_translated_alike_by_elementpath(text):
    plain = translate(text)
    assert plain is None or plain == by_elementpath(text)


@pytest.mark.parametrize(
    "text",
    [
        "[A-Z]{2}[0-9]{3}",
        "[a-z]{3}(-[a-z]+)*",
        "https?://[!-~]+",
        "a.b",
        r"\d+\.\d{2}",
        "(EUR|USD)",
        "[^a-c]",
    ],
)
def test_patterns_as_people_write_them_are_plain(text):
    assert translate(text) == by_elementpath(text)


@pytest.mark.parametrize(
    "text",
    ["", "*a", "a**", "a{1}?", "(", ")", "(a", "a)", "()", "(|a)", "a|", "|a", "(?=a)", "[", "[]", "[^]", "[z-a]", r"\p{L}",
     r"\w", r"\1", "[a-z-[b]]", "é", "[é]", r"[\d]", "a{", "a{,2}", r"[\\d]"],
)  # fmt: skip
def test_whatever_else_is_left_to_elementpath(text):
    assert translate(text) is None


def test_a_bad_expression_is_refused_all_the_same():
    with pytest.raises(regex.PatternError, match="not a regular expression"):
        regex.xsd("[z-a]")
    with pytest.raises(regex.PatternError, match="not a regular expression"):
        regex.xsd("a{3,2}")


def test_a_plain_pattern_and_a_category_are_probed_without_elementpath():
    asked = "from agentserver.payload.fields.pattern import objection, sample\n"
    asked += r"for text in ('[A-Z]{2}[0-9]{3}', '[a-z]{3}(-[a-z]+)*', r'\P{C}*'): assert not objection(text) and sample((text,))"
    asked += "\nimport sys; assert 'elementpath' not in sys.modules"
    subprocess.run([sys.executable, "-c", asked], check=True, timeout=HANGS)
