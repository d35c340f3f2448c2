from __future__ import annotations

import pytest

from agentserver import HandlerResponse, SystemError
from agentserver.core.decide import decisions
from agentserver.core.decide.requeue import redrive, requeue
from agentserver.core.encoding import decision_codec
from agentserver.core.messages import Done, RedrivenLetter, RequeuedLetter
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.conversation import Conversation
from tests.core.paper import Answer, Ask, Paper, listener, rules

SHOP = rules(listener("agent", "tool"), listener("tool", "deep"), listener("deep"))


class Works:
    """The listeners; those that are named crash."""

    def __init__(self):
        self.broken = set()
        self.patient = False

    def __getitem__(self, name):
        def handle(call):
            if name in self.broken:
                raise RuntimeError(name)
            if isinstance(call.payload, Ask) and name != "deep":
                return HandlerResponse(Ask(call.payload.text), {"agent": "tool", "tool": "deep"}[name])
            if self.patient and isinstance(call.payload, SystemError):
                return None
            return HandlerResponse.respond(Answer(name))

        return handle


@pytest.fixture
def works():
    return Works()


@pytest.fixture
def paper(works):
    return Paper(SHOP, works)


def dead(paper, to):
    """The delivery that its listener failed with."""
    return next(d for outcome in paper.outcomes for d in outcome.added if d.to == to and "Ask" in d.root)


def again(paper, delivery):
    return paper.apply(requeue(paper.conversation, RequeuedLetter(delivery, "ops"), SHOP, paper.moment()))


def answered_requests(paper):
    return [event.answered for event in paper.events if isinstance(event, Done)]


def test_an_idle_request_is_reopened_and_answered(paper, works):
    works.broken = {"agent"}
    paper.ask("x", "agent")
    works.broken = set()
    outcome = again(paper, dead(paper, "agent")._replace(attempt=3))
    assert [delivery.attempt for delivery in outcome.added] == [0]
    assert [request.pending for request in paper.conversation.requests.values()] == [1]
    paper.run()
    assert paper.replies[-1] == Answer("agent")
    assert answered_requests(paper) == [True, True]
    assert not paper.conversation.requests


def test_deep_in_a_conversation_the_answer_goes_where_the_first_one_went(paper, works):
    works.broken, works.patient = {"deep"}, True
    paper.ask("x", "agent")
    assert answered_requests(paper) == [False]
    works.broken = set()
    again(paper, dead(paper, "deep"))
    paper.run()
    assert paper.replies == [Answer("agent")]
    assert answered_requests(paper) == [False, True]


def test_while_its_request_is_under_way(paper, works):
    works.broken, works.patient = {"deep"}, True
    paper.say(Ask("x"), "agent")
    for _ in range(3):
        paper.step()
    assert paper.conversation.requests
    works.broken = set()
    again(paper, dead(paper, "deep"))
    (request,) = paper.conversation.requests.values()
    assert request.pending == 2
    paper.run()
    assert Answer("agent") in paper.replies
    assert not paper.conversation.requests


def test_a_closed_thread_and_a_closed_conversation(paper, works):
    works.broken = {"tool"}
    paper.ask("x", "agent")
    with pytest.raises(LookupError, match="its thread is closed"):
        again(paper, dead(paper, "tool"))
    agent = dead(paper, "agent")
    paper.apply(decisions.close(paper.conversation, SHOP, paper.moment(), "over"))
    with pytest.raises(LookupError, match="its thread is closed"):
        again(paper, agent)


def test_an_already_waiting_message(paper):
    paper.say(Ask("x"), "agent")
    with pytest.raises(LookupError, match="it waits already"):
        again(paper, dead(paper, "agent"))


def test_the_root_is_no_place_for_a_delivery(paper):
    paper.say(Ask("x"), "agent")
    with pytest.raises(LookupError, match="its thread is closed"):
        again(paper, dead(paper, "agent")._replace(thread=paper.conversation.tree.root))


# As a request of its own


def open_with_letter(letter, works, shop=SHOP):
    """The letter in a new conversation."""
    paper = Paper(shop, works)
    paper.conversation = Conversation.begin("console", paper.moment())
    return paper, redrive(paper.conversation, RedrivenLetter(letter, "again", "ada"), shop, paper.moment())


def test_a_letter_of_a_closed_conversation_is_answered_to_its_principal(paper, works):
    works.broken = {"tool"}
    paper.ask("x", "agent")
    letter = dead(paper, "tool")
    works.broken = set()
    new, outcome = open_with_letter(letter, works)
    (delivery,) = outcome.added
    assert (delivery.sender, delivery.to, delivery.request, delivery.hop) == ("console", "tool", "again", 2)
    (record,) = [record for record in outcome.records if record.event is Event.REDRIVEN]
    assert (
        WORDING.join_lines(record.detail)
        == f"dead letter {letter.id} of conversation {letter.conversation}, by ada"
    )
    new.apply(outcome)
    new.run()
    assert new.replies == [Answer("tool")]
    assert answered_requests(new) == [True]


def test_it_is_recorded_with_all_that_it_needs_and_decided_again(paper, works):
    paper.say(Ask("x"), "agent")
    new, outcome = open_with_letter(dead(paper, "agent"), works)
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome), {}, decision_codec.list_sent_messages(outcome), SHOP
    )
    assert cause == outcome.cause
    again_ = decision_codec.decide(new.conversation, cause, SHOP, outcome.moment)
    assert again_._replace(parsed={}) == outcome._replace(parsed={})


def test_a_listeners_call_or_a_system_message_is_no_request(paper, works):
    paper.ask("x", "agent")
    answers = [d for outcome in paper.outcomes for d in outcome.added if "Answer" in d.root]
    with pytest.raises(LookupError, match="takes no Answer that it has not asked for"):
        open_with_letter(answers[0], works)
    with pytest.raises(LookupError, match="Answer is the system's"):
        open_with_letter(answers[0]._replace(sender="system"), works)
    with pytest.raises(LookupError, match="nobody takes no Ask"):
        open_with_letter(dead(paper, "agent")._replace(to="nobody"), works)
    with pytest.raises(LookupError, match="does not satisfy"):
        open_with_letter(dead(paper, "agent")._replace(message=b"<torn"), works)
