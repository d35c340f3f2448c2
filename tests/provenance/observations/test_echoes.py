"""What a listener was asked with, and joins: it vouches for none of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import Ledger, Observation, Policy, leaves
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.observations.assessment import Echoes
from agentserver.provenance.policy.declarations import FieldRule
from agentserver.provenance.request.trusted_words import TrustedWords

POLICY = Policy(sources=("contacts",), fields=(FieldRule("contacts", "address", Standing.DIRECTORY),))


@pytest.mark.parametrize(
    ("asked", "said", "echo"),
    [
        (["Mallory@evil.example"], "mallory@EVIL.example", True),
        (["mallory", "evil.example"], "mallory@evil.example", True),
        (["mallory@evil", "example"], "mallory@evil.example", True),
        (["example", "evil", "mallory"], "mallory@evil.example", True),
        (["mallory"], "mallory@corp.example", False),
        (["mallory", "corp", ""], "mallory@corp.example", False),
        (["1", "7"], "17", False),
        ([], "mallory@corp.example", False),
    ],
)
def test_a_value_built_from_the_request(asked, said, echo):
    assert Echoes(TrustedWords(), leaves(asked)).contain(said) is echo


def test_a_directory_that_joins_its_arguments_vouches_for_nothing():
    asked = leaves(["mallory@evil", "example"])

    def standings(query):
        seen = Observation("contacts", leaves({"address": "mallory@evil.example"}), 1, arguments=asked)
        ledger = Ledger().ask(query).observe(POLICY, seen)
        return [text.standing for text in (*ledger.texts, *ledger.records.entries)]

    assert standings("look it up") == [Standing.PROSE]
    assert standings("write to mallory@evil.example") == [Standing.DIRECTORY]


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=6), min_size=1, max_size=8), st.randoms())
def test_any_parts_in_any_order_and_number_are_found(parts, random):
    taken = [random.choice(parts) for _ in range(random.randint(2, 8))]
    joined = "".join(taken)
    found = Echoes(TrustedWords(), leaves(parts)).contain(joined)
    assert found is (len(joined) >= 8 or joined in parts)
