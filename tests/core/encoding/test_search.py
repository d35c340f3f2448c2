"""Facets of a step: the same of its records as they are, and as they are kept. Words of its messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.contract import Code
from agentserver.core.encoding.codecs import StoredMessage, StoredRecord
from agentserver.core.encoding.search import LONGEST, REFUSED, Facet, list_facets, split_words
from agentserver.core.records.audit import AuditRecord, Event


def _list_both(code, to):
    about = StoredMessage("thread", "desk", to, "Transfer", 1)
    whole = AuditRecord(Event.REFUSED, 1.0, "c", "thread", "desk", to, code=code)
    kept = StoredRecord(Event.REFUSED, "d", code=code, about=about)
    found = [list_facets([], [one]) for one in (whole, kept)]
    assert found[0] == found[1]
    return found[0]


def test_a_listener_counts_when_a_rule_refused_every_message_to_it():
    assert _list_both(Code.DENIED, "bank") == {Facet("listener", "bank"), Facet("code", "denied"), REFUSED}


@pytest.mark.parametrize("code", [Code.ROUTING, Code.VALIDATION, Code.BUSY])
def test_a_name_that_no_listener_may_have_is_none(code):
    assert _list_both(code, "invented") == {Facet("code", code), REFUSED}


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_text_are_those_that_the_pattern_for_all_scripts_finds(text):
    assert split_words(text) == split_words(f"{text} \u00e9") - {"\u00e9"}


def test_a_long_word_is_compared_by_its_beginning_in_either_script():
    for letter in ("x", "\u00e9"):
        assert split_words(letter * 2 * LONGEST) == {letter * LONGEST}
