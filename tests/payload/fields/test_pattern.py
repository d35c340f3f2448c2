"""Pattern facets, and texts that match them."""

from __future__ import annotations

import re

import pytest
from elementpath.regex import translate_pattern

from agentserver.hygiene.pattern import LONGEST, read_xsd_pattern, write_sample
from agentserver.hygiene.simple_types import Judge, Lexical
from agentserver.payload.fields.facets import find_objection, find_sample_patterns


def accepts(*patterns: str, text: str) -> bool:
    return Judge({"v": Lexical(patterns)}).accepts("v", text)


@pytest.mark.parametrize(
    "regex",
    [
        "[A-Z]{3}", r"\p{Lu}\d{2,4}", "a|b", "[^abc]x?", "(ab)+c{0,3}", r"\d+", "[a-z-[aeiou]]+", "é+", ".*", "[$^]", r"\^",
        "[0-9A-F]{8}(-[0-9A-F]{4}){3}", r"x\.y\-", r"\P{L}", "(a|b|)c", "(x(y(z)?)?)?w", r"[\-a]", r"\\", "[^a0A_. -]+",
        r"[\p{Ll}]{2}", "😀+", r"\t|b", "[^\\d]", r"\p{Mn}+", r"\p{Zl}?", "[a-z0-9]+(-[a-z0-9]+)*", "(jan|jun|jul|true|tree)",
    ],
)  # fmt: skip
def test_a_pattern_has_a_sample_that_every_engine_accepts(regex: str) -> None:
    assert find_objection(regex) == ""
    text = find_sample_patterns((regex,))
    assert text is not None
    assert accepts(regex, text=text)
    reference = translate_pattern(regex, back_references=False, lazy_quantifiers=False, anchors=False)
    assert re.fullmatch(reference, text)
    assert find_sample_patterns((regex,)) == text


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("^a", "must not use .: a pattern always"), ("a$", r"write \[\$\] for"), (r"\w+", "name the characters"), (r"[\w]", "name the characters"),
        (r"a\S", "name the characters"), (r"\i\c*", "name the characters"), (r"[a-z-[\s]]", "name the characters"),
        ("", "1 to 1000"), ("a" * (LONGEST + 1), "1 to 1000"), ("a\x00", "XML can carry"), ("(", "not a regular"), ("a**", "not a regular"),
        ("a+?", "not a regular"), ("(?:a)", "not a regular"), (r"(a)\1", "not a regular"), (r"\bx", "not a regular"), ("[]", "not a regular"),
        ("[a", "not a regular"), ("a{2", "not a regular"), ("{", "not a regular"), ("\\", "not a regular"), (r"\p{Nope}", "not a regular"),
        ("[z-a]", "not a regular"), ("(" * 400 + ")" * 400, "not nest"), (r"\u0041", "not a regular"), ("x{5}{2}", "not a regular"),
        ("a{0}", "must not repeat"), ("(ab)*|x*", "a repeated group"), ("[a-z]*[a-z0-9]+", "read in two ways: .* 'a'"), (r"\p{Lo}", "not a regular"),
        ("[a[b]]", r"must write \\\["),
    ],
)  # fmt: skip
def test_an_expression_outside_the_dialect_is_refused(regex: str, reason: str) -> None:
    assert re.search(reason, find_objection(regex))


def test_dollar_and_caret_are_plain_inside_a_class_alone() -> None:
    assert find_objection("[^$]+") == ""
    assert accepts("[$^]+", text="$^")


def test_samples_keep_to_the_length() -> None:
    assert find_sample_patterns(("[a-z]+",), 5, 10) == "aaaaa"
    assert find_sample_patterns(("[a-z]*",), 0, 0) == ""
    assert find_sample_patterns((r"[a-z]+\d",), 70) is not None
    assert find_sample_patterns(("[a-z]{3}",), 5) is None
    assert find_sample_patterns(("[a-z]{3}",), 0, 2) is None


def test_every_pattern_must_match() -> None:
    assert find_sample_patterns(("[a-z]+", "[^x]*x.*")) is not None
    assert find_sample_patterns(("a", "b")) is None
    both = ("[a-z]+", "[^x]*x.*")
    assert [accepts(*both, text=text) for text in ("axb", "abc", "AxB")] == [True, False, False]


@pytest.mark.parametrize("times", ["+", "{2}", "{0,3}"])
def test_groups_in_groups_make_no_endless_text(times: str) -> None:
    """With fifteen of them the sample of three turns more would have 4 to the 15th power characters."""
    regex = "(b" * 12 + "a" + f"){times}" * 12
    text = write_sample(read_xsd_pattern(regex), 3) if not find_objection(regex) else ""
    assert len(text) < 1 << 22
