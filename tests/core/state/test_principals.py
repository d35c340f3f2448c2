from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state import principals

TAKEN = principals.reserved_looks(["clerk", "web.search", "till-1"])


@pytest.mark.parametrize(
    "name",
    [
        "ada",
        "Ada Lovelace",
        "ada@example.com",
        "user-0",
        "Größe",
        "Юлия",
        "山田",
        "console",
        "systemd",
        "clerk.ada",
    ],
)
def test_who_may_be_a_principal(name):
    assert principals.explain_unfit(name, TAKEN) == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is empty"), (" ", "is empty"), (" ada", "white space"), ("ada\n", "white space"), ("ada\u3000", "white space"),
        ("x" * 129, "more than 128"), ("a\u200bda", "nobody sees"), ("a\u3164da", "nobody sees"), ("a\x1bda", "nobody sees"),
        ("a\u00a0da", "nobody sees"), ("a\u202eda", "nobody sees"), ("\udc80", "nobody sees"), ("\U000e0041da", "nobody sees"),
        ("ａda", "NFKC"), ("ﬁn", "NFKC"), ("e\u0301va", "NFKC"), ("x²", "NFKC"),
        ("system", "the system"), ("System", "the system"), ("SYSTEM.todo", "the system"), ("system.x", "the system"),
        ("ѕуѕtem", "the system"), ("systém", "the system"), ("sуstem.todo", "the system"),
        ("clerk", "a listener"), ("CLERK", "a listener"), ("сlеrk", "a listener"), ("c1erk", "a listener"),
        ("web.search", "a listener"), ("web.sеarch", "a listener"), ("till-I", "a listener"),
    ],
)  # fmt: skip
def test_who_may_not(name, why):
    assert why in principals.explain_unfit(name, TAKEN)


@given(st.text(max_size=140))
def test_a_name_that_is_fit_is_stable_and_can_be_seen(name):
    if not principals.explain_unfit(name, TAKEN):
        assert unicodedata.normalize("NFKC", name) == name == name.strip()
        assert name.isprintable()
        assert 0 < len(name) <= principals.LONGEST


def test_names_that_look_alike_are_of_one_person():
    assert principals.is_same_name("ada", "ADA")
    assert principals.is_same_name("ada", "аdа")
    assert not principals.is_same_name("ada", "bob")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("oidc:https://id.example#7", "begins with oidc:"),
        ("0idc:x", "begins with oidc:"),
        ("console-1", "a principal of this machine"),
        ("ada\u200b", "characters that nobody sees"),
        ("ada", ""),
    ],
)
def test_a_principal_with_a_token_has_no_name_of_this_machine_or_of_a_provider(name, why):
    told = principals.unknown_to_network(name)
    assert why in told
    assert bool(told) == bool(why)


def test_of_two_trusts_the_lower_one_counts():
    assert principals.choose_weaker(principals.Trust.ORDERS, principals.Trust.RELAY) is principals.Trust.RELAY
    assert (
        principals.choose_weaker(principals.Trust.STRANGER, principals.Trust.RELAY)
        is principals.Trust.STRANGER
    )
