from __future__ import annotations

import pytest

from agentserver.gateways.console.lines import Ids, candidates


def offer_words(before, takers, ids):
    return [each.text for each in candidates(before, takers, ids)]


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("/t", ["/threads", "/trace"]),
        ("/raw ", ["on", "off"]),
        ("/hops of", ["off"]),
        ("/trace 1", ["1a"]),
        ("/app", ["/approvals", "/approve"]),
        ("/approve ", ["3c", "4d"]),
        ("/approve 3c ", ["always"]),
        ("/approvals 4", ["4d"]),
        ("/deny ", ["3c", "4d"]),
        ("/help ", []),
        ("@sh", ["@shop"]),
        ("@bo", ["@both", "@both/Greet", "@both/Add"]),
        ("@both ", ["name=", "loud=", "a=", "b="]),
        ("@both/Add ", ["a=", "b="]),
        ("@both/Add a=1 ", ["b="]),
        ("@shop who=x tags=y t", ["tags="]),
        ("@shop it", ["items.sku=", "items.count="]),
        ("@nobody ", []),
        ("free text", []),
        ("", []),
    ],
)
def test_candidates(before, texts, takers):
    assert offer_words(before, takers, Ids(["1a", "2b"], ["3c", "4d"])) == texts


def test_a_candidate_replaces_the_word_at_the_cursor(takers):
    (only,) = candidates("@greeter lo", takers, Ids())
    assert (only.text, only.start, only.meaning) == ("loud=", -2, "true or false")
