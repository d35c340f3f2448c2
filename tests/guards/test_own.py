"""The table of the server's own guards."""

from __future__ import annotations

from agentserver.guards.builtin import BUILTIN_GUARDS, OrganismFacts, make_builtin_guards
from agentserver.guards.lineage.guard import TrustSettings
from agentserver.payload.codec import Codecs
from agentserver.provenance.policy.declarations import Policy


def test_each_guard_bears_the_name_of_its_entry():
    made = make_builtin_guards(
        OrganismFacts({}, Codecs([]), TrustSettings(Policy(), frozenset(), frozenset()), str)
    )
    assert [guard.name for guard in made] == [name for name in BUILTIN_GUARDS if name in ("peers", "lineage")]


def test_only_the_guard_of_peers_is_asked_where_nothing_else_is_declared():
    assert [guard.name for guard in make_builtin_guards(OrganismFacts({}, Codecs([]), None, str))] == [
        "peers"
    ]
