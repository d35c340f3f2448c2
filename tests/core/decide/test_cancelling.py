"""One request ends, the conversation continues, and a replay decides the same."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.encoding import decision_codec
from agentserver.core.messages import Cancellation, Done, OutsideMessage, Reply
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.history.replay import describe_step
from tests.core.paper import Answer, Ask, Paper, listener, rules

SHOP = rules(listener("agent", "tool"), listener("tool"))
ASK = SHOP.codecs.of(Ask).encode(Ask("x")).encode()


def paper():
    return Paper(
        SHOP,
        {
            "agent": lambda call: HandlerResponse(Ask("sub"), "tool"),
            "tool": lambda call: HandlerResponse.respond(Answer("there")),
        },
    )


def two():
    """A conversation in which two requests are under way."""
    one = paper()
    first = decisions.receive(one.conversation, OutsideMessage(ASK, "1", "agent"), SHOP, one.moment())
    second = decisions.receive(first.conversation, OutsideMessage(ASK, "2", "tool"), SHOP, one.moment())
    return one, second.conversation


def cancel_request(one, conversation, by="", request="1"):
    return decisions.cancel(conversation, Cancellation(request, by), SHOP, one.moment())


@pytest.mark.parametrize("by", ["", "ada"])
def test_cancelling_closes_its_threads_notifies_its_principal_and_keeps_the_other_request(by):
    one, before = two()
    outcome = cancel_request(one, before, by)
    after = outcome.conversation
    assert list(after.requests) == ["2"]
    assert {thread.owner for thread in after.tree.nodes.values()} == {after.principal, "tool"}
    assert set(outcome.closed) == before.tree.nodes.keys() - after.tree.nodes.keys()
    assert [type(event) for event in outcome.replies] == ([Reply, Done] if by else [Done])
    assert outcome.replies[-1].answered == bool(by)
    record = next(record for record in outcome.records if record.event is Event.CANCELLED)
    assert (record.request, WORDING.join_lines(record.detail)) == (
        "1",
        "by ada" if by else "by its principal",
    )
    refused = [record.code for record in outcome.records if record.event is Event.REFUSED]
    assert refused == []
    if by:
        assert Code.DENIED.value.encode() in outcome.replies[0].message


@pytest.mark.parametrize("by", ["", "ada"])
def test_it_is_recorded_and_decided_again_as_it_was(by):
    one, before = two()
    outcome = cancel_request(one, before, by)
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome), {}, decision_codec.list_sent_messages(outcome), SHOP
    )
    assert cause == outcome.cause
    assert decision_codec.decide(before, cause, SHOP, outcome.moment) == outcome
    assert describe_step(cause) == f"the end of a request, by {by or 'its principal'}"


def test_an_idle_or_unknown_request_is_not_cancelled():
    one, before = two()
    after = cancel_request(one, before).conversation
    for request in ("1", "unknown", ""):
        assert cancel_request(one, after, request=request) is None
    with pytest.raises(LookupError):
        decision_codec.decide(after, Cancellation("1"), SHOP, one.moment())
