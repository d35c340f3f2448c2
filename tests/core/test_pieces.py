from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from agentserver.core.decide import decisions
from agentserver.core.drafts.replies import normalise, read_result
from agentserver.core.pieces import run_pieces
from agentserver.core.state.requests import ResultLimits
from tests.core.paper import Ask, Paper, listener, rules

MANY = [HandlerResponse(Ask(str(number)), "b") for number in range(100)]


def count_pieces(pieces):
    """How many pieces there were, and the result."""
    count = 0
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return count, end.value
        count += 1


def raise_lookup():
    yield
    raise LookupError


def test_an_exception_of_the_work_propagates():
    with pytest.raises(LookupError):
        run_pieces(raise_lookup())


def test_a_long_result_is_read_and_decided_about_in_as_many_pieces_as_it_has_messages():
    shop = rules(listener("a", "b"), listener("b"))
    room = ResultLimits(1000, 1 << 20)
    count, said = count_pieces(read_result(MANY, shop.codecs, shop.bounds, room))
    assert count == 100
    assert [d.markup for d in said.drafts] == [
        d.markup for d in normalise(MANY, shop.codecs, shop.bounds, room).drafts
    ]
    paper = Paper(shop, {"a": lambda call: MANY})
    paper.say(Ask("hi"), "a")
    finished, moment = paper.invoke(paper.waiting[0]), paper.moment()
    count, outcome = count_pieces(decisions.conclude_in_pieces(paper.conversation, finished, shop, moment))
    assert count == 198  # no pause after the last
    again = decisions.conclude(paper.conversation, finished, shop, moment)
    assert (outcome.conversation, outcome.added, outcome.records) == (
        again.conversation,
        again.added,
        again.records,
    )
