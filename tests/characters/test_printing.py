from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from agentserver.characters.printing import MARKS, clean_line, escape_markup, escape_unseen
from agentserver.characters.table import is_unseen
from tests.characters.unescaping import unescape_visible

HOSTILE = st.text(
    st.sampled_from(
        "abpz019 .:/\\\n\t\x1b\u00a0\u0301\u0488\u115f\u1160\u3164\uffa0\u2800\ufe0f\u200b\u202e\u2066аеѕорпж"
        "ονλ中カ한১৪٠\U000e0041\U000e0100∕．ɑıé"
    )
)


@given(st.text() | HOSTILE)
def test_the_escaped_form_is_unambiguous(text):
    assert unescape_visible(escape_unseen(text)) == text


@given(st.text() | HOSTILE, st.text() | HOSTILE)
def test_two_texts_never_look_the_same(one, other):
    assert (escape_unseen(one) == escape_unseen(other)) == (one == other)


@given(st.text() | HOSTILE)
def test_nothing_unseen_is_shown_and_marks_never_pile_up(text):
    piled = 0
    for char in escape_unseen(text):
        assert not is_unseen(char)
        piled = piled + 1 if unicodedata.category(char) in {"Mn", "Me"} else 0
        assert piled <= MARKS


@pytest.mark.parametrize(
    "char",
    ["\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\ufe0f", "\u180b", "\u034f", "\U000e0101", "\U000e0041",
     "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u061c", "\u17b4", "\u2061", "\u00a0", "\u3000",
     "\u2028", "\u2029", "\x85", "\r", "\x1b", "\x9b", "\x7f", "\ue000", "\ufffe", "\udc80", "\ufffc"],
)  # fmt: skip
def test_invisible_characters_are_escaped(char):
    assert escape_unseen(f"a{char}b") == f"a{escape_unseen(char)}b"
    assert escape_unseen(char).startswith("\\")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("p\u0430ypal", "p\\u0430ypal"),  # Cyrillic in a Latin word
        (
            "\u0430\u0440\u0440\u04cf\u0435.com",
            "\\u0430\\u0440\\u0440\\u04cf\\u0435.com",
        ),  # all of it looks Latin
        ("\u0455\u0441\u043e\u0440\u0435", "\\u0455\\u0441\\u043e\\u0440\\u0435"),  # alone
        ("corp\u2024com", "corp\\u2024com"),
        ("corp.com\u2215login", "corp.com\\u2215login"),
        ("p\u0251y", "p\\u0251y"),
        ("1\u09e80", "1\\u09e80"),
        ("pay 1\u09ea", "pay 1\\u09ea"),
        ("x" + "\u0301" * 6, "x" + "\u0301" * 4 + "\\u0301\\u0301"),
        ("\u0301a", "\\u0301a"),
        ("a \u0301", "a \\u0301"),
        ("\\u0430", "\\\\u0430"),
        ("C:\\new", "C:\\\\new"),
    ],
)
def test_look_alike_characters_are_escaped(text, escaped):
    assert escape_unseen(text) == escaped


@pytest.mark.parametrize(
    "text",
    [
        "Größe naïve Łódź ﬁn", "Это обычный русский текст, и он остаётся собой.", "και μετά, ο λόγος",
        "日本語のテキストとLLMを使う", "한국어 텍스트", "שָׁלוֹם", "नमस्ते", "Tiếng Việt", "🙂 漢", "e\u0301", "Işık ıslak",
        "5 µm, 3 k\u2126, Å", "١٢٣ مرحبا",
    ],
)  # fmt: skip
def test_ordinary_text_is_unchanged(text):
    assert escape_unseen(text) == text


@given(st.text(), st.integers(1, 20))
def test_any_text_becomes_one_bounded_printable_line(text, most):
    shown = clean_line(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    if text.isprintable() and len(text) <= most:
        assert shown == text


def test_replacements_and_cuts_are_visible():
    assert clean_line("a\nb\x1b[2J\u202ec", 99) == "a b\ufffd[2J\ufffdc"
    assert clean_line("abcdef", 4) == "abc…"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], min_codepoint=0x20) | st.just("\n")))
def test_markup_on_one_line_means_the_same(text):
    text = text.replace("\ufffe", "").replace("\uffff", "")
    element = etree.Element("a")
    element.text = text
    shown = escape_markup(etree.tostring(element, encoding="unicode"))
    assert shown.isprintable()
    assert (etree.fromstring(shown).text or "") == text
