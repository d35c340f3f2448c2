from __future__ import annotations

import pytest

from agentserver.gateways.console_complete import candidates


def offered(before, takers, conversations=()):
    return [each.text for each in candidates(before, takers, conversations)]


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("/t", ["/threads", "/trace"]),
        ("/raw ", ["on", "off"]),
        ("/hops of", ["off"]),
        ("/trace 1", ["1a"]),
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
    assert offered(before, takers, ["1a", "2b"]) == texts


def test_a_candidate_replaces_the_word_at_the_cursor(takers):
    (only,) = candidates("@greeter lo", takers)
    assert (only.text, only.start, only.meaning) == ("loud=", -2, "true or false")
