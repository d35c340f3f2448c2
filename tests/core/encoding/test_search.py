"""Facets of a step: the same of its records as they are, and as they are kept."""

from __future__ import annotations

import pytest

from agentserver.contract import Code
from agentserver.core.encoding.codecs import KeptMessage, KeptRecord
from agentserver.core.encoding.search import REFUSED, Facet, list_facets
from agentserver.core.records.audit import AuditRecord, Event


def _list_both(code, to):
    about = KeptMessage("thread", "desk", to, "Transfer", 1)
    whole = AuditRecord(Event.REFUSED, 1.0, "c", "thread", "desk", to, code=code)
    kept = KeptRecord(Event.REFUSED, "d", code=code, about=about)
    found = [list_facets([], [one]) for one in (whole, kept)]
    assert found[0] == found[1]
    return found[0]


def test_a_listener_counts_when_a_rule_refused_every_message_to_it():
    assert _list_both(Code.DENIED, "bank") == {Facet("listener", "bank"), Facet("code", "denied"), REFUSED}


@pytest.mark.parametrize("code", [Code.ROUTING, Code.VALIDATION, Code.BUSY])
def test_a_name_that_no_listener_may_have_is_none(code):
    assert _list_both(code, "invented") == {Facet("code", code), REFUSED}
