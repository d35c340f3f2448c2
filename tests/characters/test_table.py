from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path

import pytest

from agentserver.characters.table import TABLE, compute_skeleton, is_all_visible, is_unseen, looks_like
from agentserver.provenance.evidence.folding import fold

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
KEPT = Path(__file__).parent.parent / "fixtures" / "unicode" / "confusables-15.1.txt"

BLANK = re.compile(
    r"(?:HANGUL|HALFWIDTH|KHITAN).* FILLER$|VARIATION SELECTOR|GRAPHEME JOINER|VOWEL INHERENT|PATTERN BLANK|FULL BLANK|HALF BLANK|SYMBOL NULL NOTEHEAD"
    r"|ZERO WIDTH|^TAG "
)


def test_the_database_names_nothing_unseen_that_the_table_has_not():
    missed = [hex(ord(c)) for c in EVERY if BLANK.search(unicodedata.name(c, "")) and not is_unseen(c)]
    assert missed == []


def test_invisible_general_categories_are_invisible():
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    assert [c for c in EVERY if unicodedata.category(c) in hidden and not is_unseen(c)] == [" "]


def test_the_table_adds_only_characters_without_a_glyph():
    added = [c for c in EVERY if is_unseen(c) and c.isprintable()]
    assert len(added) < 300  # 256 of them are variation selectors
    assert {unicodedata.category(c) for c in added} == {"Lo", "Mn", "So"}
    for c in added:
        assert BLANK.search(unicodedata.name(c)) or c in "\u180f\ufffc"


def test_a_text_is_seen_when_each_of_its_characters_is():
    assert [c for c in EVERY if is_all_visible(c) == is_unseen(c)] == []


def read_table() -> list[tuple[str, str]]:
    lines = KEPT.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split(" ") for line in lines]
    return [(chr(int(code, 16)), look) for look, *codes in rows for code in codes]


def test_every_look_alike_of_the_library_folds_to_its_twin():
    assert len(read_table()) > 1350
    assert [(hex(ord(c)), look, fold(c)) for c, look in read_table() if fold(c) != fold(look)] == []
    assert [
        (hex(ord(c)), look) for c, look in read_table() if compute_skeleton(c) != compute_skeleton(look)
    ] == []


def test_nothing_in_ascii_is_in_the_table():
    assert not any(chr(code).isascii() for code in TABLE)
    assert looks_like("a") == ""


@pytest.mark.parametrize(("upper", "lower"), ["Зз", "Бб", "Кк", "Ωω", "Жж", "Ηη", "Σσ", "Κκ", "Ԁԁ", "Ξξ"])
def test_case_is_no_evidence(upper, lower):
    if (upper, lower) != ("Η", "η"):  # they look like two Latin letters: see folding.py
        assert fold(upper) == fold(lower)


def test_the_case_is_folded_last():
    assert fold("\u0397ELLO") == fold("hello")
    assert fold("\u039dEXT") == fold("next")
    assert fold("\u03a5ES") == fold("yes")


@pytest.mark.parametrize(
    "filler", ["\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\ufe0f", "\U000e0061", "\u034f"]
)
def test_fillers_are_no_evidence(filler):
    assert fold(f"evil{filler}.example") == fold("evil.example")


@pytest.mark.parametrize(
    "name", ["system", "SYSTEM", "ѕуѕtem", "ｓystem", "sys\u200btem", "s\u3164ystem", "systém"]
)
def test_names_that_look_the_same_have_one_skeleton(name):
    assert compute_skeleton(name) == compute_skeleton("system")


def test_names_that_look_different_have_two():
    names = ["system", "sister", "desk", "clerk", "console", "operator", "bob", "rob"]
    assert len({compute_skeleton(name) for name in names}) == len(names)
