"""Work that stops where the budget does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.blueprint import Limits
from agentserver.core.drafts.replies import normalise
from agentserver.core.encoding import decision_codec
from agentserver.core.messages import Drafts, Moment
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.refusals import Refusal, make_system_error
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.requests import OpenRequest, ResultLimits
from tests.core.paper import Answer, Ask, Paper, listener, rules

respond = HandlerResponse.respond
SHOP = rules(listener("a", "b"), listener("b"))


class Endless(list):
    """A result whose iteration has no end, and which says that it is short."""

    def __init__(self, response):
        super().__init__()
        self.response, self.given = response, 0

    def __len__(self):
        return 1

    def __iter__(self):
        while True:
            self.given += 1
            yield self.response


class CountCodecs:
    """Codecs that count the payloads that they encode."""

    def __init__(self, codecs):
        self.codecs, self.encoded = codecs, 0

    def __getattr__(self, name):
        return getattr(self.codecs, name)

    def __iter__(self):
        return iter(self.codecs)

    def of(self, kind):
        self.encoded += 1
        return self.codecs.of(kind)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50), st.integers(1, 50))
def test_the_room_is_one_message_at_least_and_shrinks_by_one_with_each_message(
    conversation, request, own, all_
):
    limits = Limits(messages=own, conversation_messages=all_)
    opened = Conversation.begin("ada", Moment(0.0, bytes(16)))

    def remaining_room(used, by_request):
        entries = {"r": OpenRequest("r", messages=by_request)}
        return opened._replace(messages=used, requests=entries).room(limits, "r").messages

    now = remaining_room(conversation, request)
    assert now == max(1, min(own - request, all_ - conversation))
    assert remaining_room(conversation + 1, request + 1) == max(1, now - 1)


@pytest.mark.parametrize("kind", [list, tuple])
def test_no_part_of_an_oversized_result_is_encoded(kind):
    codecs = CountCodecs(SHOP.codecs)
    said = normalise(kind([respond(Answer("x"))] * 100_000), codecs, SHOP.bounds, ResultLimits(2000, 1 << 30))
    assert isinstance(said, Refusal)
    assert said.code is Code.BUDGET
    assert codecs.encoded == 0


def test_a_result_without_an_end_is_read_as_far_as_there_is_room():
    endless = Endless(respond(Answer("x")))
    said = normalise(endless, SHOP.codecs, SHOP.bounds, ResultLimits(20, 1 << 30))
    assert said.code is Code.BUDGET
    assert endless.given == 21


def test_all_bytes_of_a_result_count_together():
    codecs = CountCodecs(SHOP.codecs)
    said = normalise([respond(Answer("x" * 1000))] * 500, codecs, SHOP.bounds, ResultLimits(2000, 10_000))
    assert said.code is Code.BUDGET
    assert codecs.encoded <= 10


def test_text_of_too_many_payloads_is_refused_before_they_are_looked_at():
    markup = SHOP.codecs.of(Answer).encode(Answer("x")).encode()
    fits = normalise(markup * 20, SHOP.codecs, SHOP.bounds, ResultLimits(20, 1 << 30))
    assert isinstance(fits, Drafts)
    assert len(fits.drafts) == 20
    assert normalise(markup * 21, SHOP.codecs, SHOP.bounds, ResultLimits(20, 1 << 30)).code is Code.BUDGET
    loose = b"Here you are:\n" + markup * 3
    assert normalise(loose, SHOP.codecs, SHOP.bounds, ResultLimits(2, 1 << 30)).code is Code.BUDGET


@pytest.mark.parametrize(
    "result", [[respond(Answer("x"))] * 100_000, Endless(respond(Answer("x")))], ids=["long", "endless"]
)
def test_a_result_beyond_the_budget_ends_its_request_and_is_decided_again(result):
    paper = Paper(
        SHOP, {"a": lambda call: result if call.payload == Ask("flood") else respond(Answer("still here"))}
    )
    request = paper.say(Ask("flood"), "a")
    before, (delivery,) = paper.conversation, paper.waiting
    outcome = paper.step()
    assert paper.replies == [make_system_error(Code.BUDGET)]
    assert paper.ends == {request: True}
    assert [WORDING.join_lines(r.detail) for r in outcome.records if r.event is Event.REFUSED] == [
        "a result of more than 1999 messages"
    ]
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome),
        {delivery.id: delivery},
        decision_codec.list_sent_messages(outcome),
        paper.rules,
    )
    again = decision_codec.decide(before, cause, paper.rules, outcome.moment)
    assert (again.conversation, again.records) == (outcome.conversation, outcome.records)
    paper.ask()
    assert paper.replies[-1] == Answer("still here")


def test_spending_by_others_meanwhile_counts_for_a_result_read_earlier():
    paper = Paper(
        rules(listener("a", "b"), listener("b", "c"), listener("c"), messages=9),
        {
            "a": lambda c: [HandlerResponse(Ask("x"), "b")] * 2,
            "b": lambda c: [HandlerResponse(Ask("y"), "c")] * 4,
        },
    )
    paper.say(Ask("hi"), "a")
    paper.step()
    slow = paper.invoke(paper.waiting.pop())
    paper.step(0)
    paper.conclude(slow)
    assert paper.replies == [make_system_error(Code.BUDGET)]
    assert not paper.conversation.requests


def test_replies_that_leave_are_messages_of_their_request():
    paper = Paper(
        rules(listener("a"), messages=10),
        {"a": lambda c: [*([respond(Answer("again"))] * 3), HandlerResponse(Ask("x"), "a")]},
    ).ask()
    assert paper.replies[-1] == make_system_error(Code.BUDGET)
    assert len(paper.replies) <= 10


def test_a_last_answer_needs_no_budget():
    paper = Paper(rules(listener("a"), messages=1), {"a": lambda c: respond(Answer("x"))}).ask()
    assert paper.replies == [Answer("x")]


def test_a_long_result_is_recorded_with_one_look_at_each_message():
    class CountedBytes(bytes):
        looks = 0

        def rfind(self, part):
            CountedBytes.looks += 1
            return super().rfind(part)

    paper = Paper(
        SHOP, {"a": lambda c: [HandlerResponse(Ask(f"{n}"), "b") for n in range(300)], "b": lambda c: None}
    )
    paper.say(Ask("hi"), "a")
    outcome = paper.step()
    result = outcome.cause.result
    kept = decision_codec._keep_return(
        result, [CountedBytes(message) for message in decision_codec.list_sent_messages(outcome)]
    )
    assert [draft.place[0] for draft in kept.result.drafts] == list(range(300))
    assert CountedBytes.looks == 300
