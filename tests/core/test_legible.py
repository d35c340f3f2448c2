from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from agentserver.core.legible import legible, referenced


@given(st.text(), st.integers(1, 20))
def test_what_anybody_wrote_is_one_bounded_printable_line(text, most):
    shown = legible(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    if text.isprintable() and len(text) <= most:
        assert shown == text


def test_what_is_replaced_and_what_is_cut_can_be_seen():
    assert legible("a\nb\x1b[2J\u202ec", 99) == "a b\ufffd[2J\ufffdc"
    assert legible("abcdef", 4) == "abc…"


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], min_codepoint=0x20) | st.just("\n")))
def test_markup_on_one_line_means_the_same(text):
    text = text.replace("\ufffe", "").replace("\uffff", "")
    element = etree.Element("a")
    element.text = text
    shown = referenced(etree.tostring(element, encoding="unicode"))
    assert shown.isprintable()
    assert (etree.fromstring(shown).text or "") == text
