"""The peers guard by itself."""

from __future__ import annotations

import pytest

from agentserver.contract import Code
from agentserver.core.drafts.routing import Proposal, Route
from agentserver.core.guard import DenyVerdict
from agentserver.core.records.details import Ground
from agentserver.guards.builtin import PeersGuard
from tests.core.paper import listener

GUARD = PeersGuard()


@pytest.mark.parametrize("route", [Route.ANSWER, Route.SELF, Route.SERVICE])
def test_answers_calls_of_oneself_and_services_need_no_peer(route):
    assert GUARD.judge(None, Proposal(listener("a"), "t", "b", route, "r", "", None), 0.0) is None


@pytest.mark.parametrize(
    ("peers", "passes"), [(["b"], True), (["b", "c"], True), ([], False), (["c"], False), (["B"], False)]
)
def test_a_peer_is_one_that_is_declared(peers, passes):
    verdict = GUARD.judge(None, Proposal(listener("a", *peers), "t", "b", Route.PEER, "r", "", None), 0.0)
    assert verdict == (None if passes else DenyVerdict(Code.ROUTING, Ground.NO_PEER.of("b", "a")))


def test_it_remembers_nothing():
    assert GUARD.observe(None, None, None, 0.0) is None
    assert GUARD.approve(None, ()) is None
