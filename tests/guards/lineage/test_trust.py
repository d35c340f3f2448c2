"""What follows from declarations alone: who may carry words in, and how much the values of an intent tell."""

from __future__ import annotations

from math import log2

import pytest

from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.exposure import Recall
from agentserver.guards.lineage.trust import TrustSettings, count_intent_bits, find_carriers
from agentserver.handoff.intents import Intent, Vocabulary, vocabulary
from agentserver.handoff.parameters import Parameter, Type
from agentserver.hygiene.simple_types import Lexical
from agentserver.provenance import Policy

PEERS = {
    "reader": ["web"],
    "planner": ["reader", "writer"],
    "writer": [],
    "lonely": ["attic"],
    "attic": [],
    "web": [],
}
POLICY = Policy(sources=("web",), relays=("reader", "planner", "writer", "lonely", "attic"))


@pytest.mark.parametrize(
    ("keeping", "found"),
    [
        ({"writer"}, {"writer"}),
        ({"attic"}, set()),
        ({"attic", "writer"}, {"attic", "writer"}),
        (set(), set()),
    ],
)
def test_who_carries_words_is_exposed_as_soon_as_a_source_reaches_any_of_them(keeping, found):
    """The attic reads what the writer keeps: a database knows no peers."""
    recalls = dict.fromkeys(keeping, Recall.SERVER) | {"reader": Recall.THREAD}
    assert find_carriers(POLICY, recalls, PEERS) == found


def test_a_principal_who_is_a_source_reaches_all():
    stranger = Policy(sources=("console",), relays=tuple(PEERS))
    assert find_carriers(stranger, {"attic": Recall.SERVER}, PEERS) == {"attic"}
    nobody = Policy(sources=(), relays=tuple(PEERS))
    assert find_carriers(nobody, {"attic": Recall.SERVER}, PEERS) == set()


@pytest.mark.parametrize(("addressed", "found"), [(["lonely"], {"attic"}), (["web"], set()), ([], set())])
def test_a_stranger_reaches_its_permitted_targets_and_their_peers(addressed, found):
    nobody = Policy(sources=(), relays=tuple(PEERS))
    assert find_carriers(nobody, {"attic": Recall.SERVER}, PEERS, addressed) == found


def test_a_principal_is_suspected_by_any_entry_that_means_it():
    """A glob that means a principal is no weaker than its name; a beginning means listeners alone."""
    trusted = TrustSettings(Policy(sources=("visitor-*", "form", "mail")))
    found = {
        name: trusted.find_trust(name, Trust.RELAY) for name in ("visitor-7", "form", "console", "mail_room")
    }
    assert [name for name, trust in found.items() if trust is Trust.STRANGER] == ["visitor-7", "form"]
    assert found["console"] is Trust.RELAY


def test_an_undeclared_listener_remembers_on_all_its_threads():
    trusted = TrustSettings(POLICY, recalls={"reader": Recall.THREAD})
    assert (trusted.recall_of("reader"), trusted.recall_of("writer")) == (Recall.THREAD, Recall.LISTENER)


def parameter(name, **facts):
    return Parameter(name, facts.pop("lexical", Lexical(("[a-z]{1,20}",), (), 0, 20)), **facts)


TONE = parameter("tone", lexical=Lexical((), ("warm", "cold", "none", "any"), 0, None))


@pytest.mark.parametrize(
    ("parameters", "bits"),
    [
        ((), 0.0),
        ((TONE,), 2.0),
        ((TONE, parameter("now", type=Type.BOOLEAN, lexical=Lexical(("true|false",)))), 3.0),
        ((parameter("now", type=Type.BOOLEAN, lexical=Lexical(("true|false",)), required=False),), log2(3)),
        ((parameter("day", type=Type.INTEGER, lexical=Lexical(("[0-9]{1,2}",), (), 0, 2)),), log2(400)),
        ((TONE, parameter("name")), None),
    ],
)
def test_the_values_of_an_intent_are_counted_where_all_are_closed(parameters, bits):
    known = vocabulary([Intent("do", ("writer",), "Do it.", parameters)])
    assert isinstance(known, Vocabulary), known
    assert count_intent_bits(known) == ({} if bits is None else {"do": bits})
