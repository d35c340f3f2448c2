"""Refused messages cannot be made to fill the journal, and a replay refuses them alike."""

from __future__ import annotations

from hashlib import sha256

import pytest

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.decide.dismissal import KEPT, DismissedMessage, make_excerpt
from agentserver.core.encoding import decision_codec
from agentserver.core.messages import Excerpt, OutsideMessage, RejectedMessage, RequestKey
from agentserver.core.receipts import issue_receipt
from tests.core.paper import Answer, Ask, Paper, listener, rules

SHOP = rules(listener("agent"), payload=1 << 20)
LONG = b"<nothing>" + b"x" * 800_000


def paper():
    return Paper(SHOP, {"agent": lambda call: HandlerResponse.respond(Answer(call.payload.text))})


def receive_payload(data, to="agent", key=None):
    one = paper()
    return one.conversation, decisions.receive(
        one.conversation, OutsideMessage(data, "1", to, key), SHOP, one.moment()
    )


def decide_again(before, outcome, shop=SHOP):
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome), {}, decision_codec.list_sent_messages(outcome), shop
    )
    return decision_codec.decide(before, cause, shop, outcome.moment)


ASK = SHOP.codecs.of(Ask).encode(Ask("x")).encode()


@pytest.mark.parametrize(
    ("data", "to"),
    [
        (LONG, "agent"),
        (b"\xff" * 500_000, None),
        (ASK.replace(b"<text>", b"<text>" + b" " * 9000 + b"<b/>"), "agent"),
        (ASK + b" " * 9000, "nobody"),
    ],
)
def test_of_a_long_message_that_is_refused_the_beginning_is_kept(data, to):
    before, outcome = receive_payload(data, to, RequestKey("name", "content"))
    written = decision_codec.dump_cause(outcome)
    assert len(written) < 4 * KEPT
    assert outcome.cause.data == Excerpt(data[:KEPT], len(data), sha256(data).hexdigest())
    decided = decide_again(before, outcome)
    assert decided._replace(cause=None) == outcome._replace(cause=None)
    name, receipt = issue_receipt(outcome)
    assert decision_codec.read_receipt(written) == (name, receipt._replace(code=""))


def test_a_short_one_is_kept_and_can_be_judged_by_other_rules():
    before, outcome = receive_payload(ASK, "other")
    assert isinstance(outcome.cause, OutsideMessage)
    assert not outcome.added
    other = rules(listener("agent"), listener("other"), payload=1 << 20)
    assert decide_again(before, outcome, other).added


def test_an_admitted_message_is_stored_in_full():
    data = SHOP.codecs.of(Ask).encode(Ask("x" * 9000)).encode()
    before, outcome = receive_payload(data)
    assert outcome.cause.data == data
    assert decide_again(before, outcome)._replace(parsed={}) == outcome._replace(parsed={})


def test_a_refusal_that_is_on_record_stays_one_under_other_rules():
    before, outcome = receive_payload(ASK + b" " * 9000, "other")
    assert isinstance(outcome.cause, DismissedMessage)
    other = rules(listener("agent"), listener("other"), payload=1 << 20)
    assert not decide_again(before, outcome, other).added


@pytest.mark.parametrize("size", [10, 900_000])
def test_a_message_rejected_unseen_is_not_stored_in_full(size):
    one, data = paper(), b"y" * size
    outside = OutsideMessage(data, "1", "agent", RequestKey("name", "content"))
    outcome = decisions.turn_away(one.conversation, outside, Code.BUSY, SHOP, one.moment())
    assert isinstance(outcome.cause, RejectedMessage)
    assert len(decision_codec.dump_cause(outcome)) < 2 * KEPT
    assert decide_again(one.conversation, outcome)._replace(cause=None) == outcome._replace(cause=None)
    name, receipt = issue_receipt(outcome)
    assert decision_codec.read_receipt(decision_codec.dump_cause(outcome)) == (
        name,
        receipt._replace(code=""),
    )
    assert receipt.code == Code.BUSY


@pytest.mark.parametrize("at", [KEPT - 299, KEPT - 150, KEPT - 9, KEPT - 1])
def test_the_beginning_that_is_kept_cuts_no_secret(at):
    secret = "".join(chr(0x4E00 + number) for number in range(100))  # 300 bytes
    data = f"{'x' * at}{secret}{'y' * KEPT}".encode()
    kept = make_excerpt(data, lambda text: text.replace(secret, "[redacted]"))
    assert (kept.length, kept.digest) == (len(data), sha256(data).hexdigest())
    assert len(kept.beginning) == KEPT
    assert secret[0] not in kept.beginning.decode(errors="replace")
