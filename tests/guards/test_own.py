"""The table of the server's own guards."""

from __future__ import annotations

from agentserver.guards.lineage.guard import Trusted
from agentserver.guards.own import OWN, OrganismFacts, own_guards
from agentserver.payload.codec import Codecs
from agentserver.provenance.policy.declarations import Policy


def test_each_guard_bears_the_name_of_its_entry():
    made = own_guards(OrganismFacts({}, Codecs([]), Trusted(Policy(), frozenset(), frozenset()), str))
    assert [guard.name for guard in made] == list(OWN)


def test_lineage_is_left_out_where_no_provenance_is_declared():
    assert [guard.name for guard in own_guards(OrganismFacts({}, Codecs([]), None, str))] == [
        "peers",
        "approval",
    ]
