"""Trees of expressions, held against the tree that the interpreter makes of the same text for itself."""

from __future__ import annotations

import re
import re._constants as sre  # the tests' oracle; the package reads expressions by itself
import re._parser as oracle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentserver.hygiene.regex import xsd
from agentserver.hygiene.syntax import UNBOUNDED, Op, parse

REPEATS = {sre.MAX_REPEAT: Op.GREEDY, sre.MIN_REPEAT: Op.LAZY, sre.POSSESSIVE_REPEAT: Op.HELD}
ENDS = {sre.AT_BEGINNING: "^", sre.AT_END: "$", sre.AT_END_STRING: "Z"}
CATEGORIES = dict(zip("dDsSwW", (sre.CATEGORY_DIGIT, sre.CATEGORY_NOT_DIGIT, sre.CATEGORY_SPACE, sre.CATEGORY_NOT_SPACE,
                                 sre.CATEGORY_WORD, sre.CATEGORY_NOT_WORD), strict=True))  # fmt: skip
ITEMS = {sre.LITERAL: Op.LITERAL, sre.RANGE: Op.RANGE, sre.NEGATE: Op.NEGATE}
OTHER = [(Op.OTHER, None)]


def item(op, value):
    if op is sre.CATEGORY:
        return Op.CATEGORY, next(letter for letter, kind in CATEGORIES.items() if kind is value)
    return ITEMS[op], value


def ours(tree):
    """The interpreter's tree in our words. Raises KeyError for what we have no word for."""
    return [node(*each) for each in tree]


def node(op, value):
    if op in REPEATS:
        low, high, body = value
        return REPEATS[op], (low, UNBOUNDED if high is sre.MAXREPEAT else high, ours(body))
    if op is sre.SUBPATTERN and not (value[1] or value[2]):
        return Op.GROUP, ours(value[3])
    if op is sre.BRANCH:
        return Op.BRANCH, [ours(branch) for branch in value[1]]
    if op is sre.IN:
        return Op.IN, [item(*each) for each in value]
    if (
        op is sre.ASSERT_NOT
        and value[0] == 1
        and list(value[1]) == [(sre.LITERAL, 10), (sre.AT, sre.AT_END_STRING)]
    ):
        return Op.AT_END, None
    return {
        sre.LITERAL: lambda: (Op.LITERAL, value),
        sre.NOT_LITERAL: lambda: (Op.NOT_LITERAL, value),
        sre.ANY: lambda: (Op.ANY, None),
        sre.AT: lambda: (Op.AT, ENDS[value]),
    }[op]()


def expected(text):
    try:
        return ours(oracle.parse(text))
    except KeyError:
        return OTHER


ATOMS = st.sampled_from(
    ["a", "b", "ab", "-", "]", "}", "{", ",", "{2", "{,}", "[a-c]", "[^a]", "[a]", "[]a]", "[^]]", "[a-]", "[-a]", r"[\n-\r]", ".", "^", "$",
     r"\n", r"\d", r"\W", r"[\d_]", r"[^\S]", r"\.", r"\x41", r"\u00e9", r"[\b]", r"\Z", r"(?!\n\Z)", r"\b", r"\1", "(?=a)", "(?i:a)", " ", "é", "[aab]"]
)  # fmt: skip
TURNS = st.sampled_from(["", "*", "+", "?", "{2}", "{2,}", "{,3}", "{1,3}", "*?", "{2}+", "+?", "??"])
EXPRESSIONS = st.recursive(
    st.tuples(ATOMS, TURNS).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=4).map(lambda each: f"({'|'.join(each)})"),
        st.tuples(inner, TURNS).map(lambda each: f"(?:{each[0]}){each[1]}"),
        st.tuples(inner, TURNS).map(lambda each: f"({each[0]}){each[1]}"),
    ),
    max_leaves=8,
)


def refused_alike(text):
    """True when the interpreter refuses a text, and so does the parser, with an error of the same class."""
    try:
        re.compile(text)
    except (re.error, OverflowError) as wrong:
        with pytest.raises(type(wrong)):
            parse(text)
        return True
    return False


@given(EXPRESSIONS)
@example("abc|abd|ab")
@example("(?:)|a")
@example("(?:a)*(?:(?:b))+")
@example("")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_tree_is_the_one_that_the_interpreter_makes(text):
    assert refused_alike(text) or parse(text) == expected(text)


@given(st.text("ab()[]{}|*+?^$\\.-,:=!<>PiZdDn012 ", max_size=12))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_text_is_read_or_refused_as_the_interpreter_does(text):
    assert refused_alike(text) or parse(text) in (expected(text), OTHER)


@pytest.mark.parametrize(
    "text", [r"\d{4}-\d{2}", "[a-z-[aeiou]]+", "(ab|ac)*x?", r"\p{Lu}.", "a|b|[c-e]", r"\i\c*"]
)
def test_what_elementpath_makes_of_a_facet_is_known(text):
    expression = xsd(text)
    assert expression.tree == expected(expression.python) != OTHER


@pytest.mark.parametrize(
    "text",
    [
        r"(a)\1",
        "(?<=a)b",
        "(?i)a",
        "(?P<x>a)",
        "(?>a)",
        r"\bword",
        r"\N{DIGIT ONE}",
        r"\0",
        r"(a)?(?(1)b|c)",
        "(?#x)",
    ],
)
def test_what_is_beyond_the_profile_is_known_to_be_so(text):
    assert parse(text) == OTHER
