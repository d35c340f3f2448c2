from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.encoding import codecs, decision_codec
from agentserver.core.messages import OutsideMessage
from agentserver.core.receipts import Receipt, make_key
from agentserver.core.receipts import issue_receipt as receipt_of
from tests.core.paper import Answer, Ask, Paper, listener, rules

texts = st.text(min_size=1, max_size=20)
arguments = st.tuples(texts, texts, texts, st.binary(max_size=20), st.none() | st.text(max_size=5))


@given(arguments, arguments)
def test_a_key_is_the_same_for_the_same_message_and_for_no_other(one, other):
    first, second = make_key(*one), make_key(*other)
    assert (first.name == second.name) == (one[:3] == other[:3])
    assert (first.content == second.content) == (one[3:] == other[3:])
    assert first == make_key(*one)


@pytest.mark.parametrize("own", ["", "x" * 513])
def test_no_id_and_a_long_one_are_refused(own):
    with pytest.raises(ValueError, match="1 to 512 characters"):
        make_key("console", "c", own, b"", None)


def test_recorded_text_reveals_no_part_of_an_id():
    shop = rules(listener("a"))
    paper = Paper(shop, {})
    data = shop.codecs.of(Ask).encode(Ask("hi")).encode()
    found = make_key("console", paper.conversation.id, "card 4711 0815", data, "a")
    outcome = decisions.receive(
        paper.conversation, OutsideMessage(data, "r", "a", found), shop, paper.moment()
    )
    written = decision_codec.dump_cause(outcome) + codecs.dump_records(outcome)
    assert b"4711" not in written
    assert receipt_of(outcome) == (found.name, Receipt("r", found.content))


@pytest.mark.parametrize("own", [None, "mine"])
def test_a_key_is_recorded_and_read_and_decides_nothing(own):
    shop = rules(listener("a"), payloads=(Answer,))
    paper = Paper(shop, {})
    data = shop.codecs.of(Ask).encode(Ask("hi")).encode()
    found = None if own is None else make_key("console", paper.conversation.id, own, data, "a")
    outside = OutsideMessage(data, "r", "a", found)
    moment = paper.moment()
    for outcome in (
        decisions.receive(paper.conversation, outside, shop, moment),
        decisions.turn_away(paper.conversation, outside, Code.BUSY, shop, moment),
    ):
        cause = decision_codec.load_cause(
            decision_codec.dump_cause(outcome), {}, decision_codec.list_sent_messages(outcome), shop
        )
        assert cause == outcome.cause
        again = decision_codec.decide(paper.conversation, cause, shop, moment)
        assert again._replace(parsed={}) == outcome._replace(parsed={})
    without = decisions.receive(paper.conversation, outside._replace(key=None), shop, moment)
    assert without._replace(cause=None, parsed={}) == decisions.receive(
        paper.conversation, outside, shop, moment
    )._replace(cause=None, parsed={})
    assert (receipt_of(outcome) is None) == (own is None)
