"""Documents that a person endorses once for a sink, through the decisions of a conversation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver import HandlerResponse
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer
from tests.core.paper import Ask, Note, Paper, listener
from tests.guards.lineage.test_delegation import PAYLOADS, POLICY, Bill, Payment, question
from tests.guards.lineage.watched import watch_listeners

ACME, BETA, EVE = "DE89370400440532013000", "FR7630006000011234567890189", "GB29NWBK60161331926819"
WORDS = "Pay the bills in folder bills/march."
TABLE = f"{ACME};98.70\n{BETA};40.00\n{EVE};7.50"
DOCUMENT = Bill("bills/march", "", "", TABLE)


class Desk:
    """An agent that reads documents and pays as it is scripted; each turn is the next of ``turns``.

    Args:
        turns: a text is a document to read, a bill is one to read in its place, a list holds payments of one result.
    """

    def __init__(self, *turns: object, policy=POLICY, document: Bill = DOCUMENT) -> None:
        agents = [
            listener("agent", "mail", "bank", payloads=(Ask, Note, Bill)),
            listener("mail", payloads=(Ask,)),
            listener("bank", payloads=(Payment,)),
        ]
        self.turns, self.document = [*turns], document
        handlers = {
            "agent": self.act,
            "mail": lambda call: HandlerResponse.respond(self.document),
            "bank": lambda call: HandlerResponse.respond(Note("paid")),
        }
        self.paper = Paper(watch_listeners(policy, *agents, payloads=PAYLOADS, peers=False), handlers)
        self.paper.say(Ask(WORDS), "agent")
        self.paper.run()

    def act(self, call):
        turn = self.turns.pop(0) if self.turns else None
        if isinstance(turn, Bill):
            self.document = turn
            return HandlerResponse(Ask("bills/march"), "mail")
        if isinstance(turn, str):
            return HandlerResponse(Ask(turn), "mail")
        if isinstance(turn, list):
            return [HandlerResponse(one, "bank") for one in turn]
        return None if turn is None else HandlerResponse(turn, "bank")

    def answer(self, answer: Answer = Answer.ALWAYS) -> Desk:
        self.paper.decide(answer)
        self.paper.run()
        return self

    @property
    def paid(self) -> list[Payment]:
        return self.paper.seen("bank")

    @property
    def waiting(self) -> int:
        return len(self.paper.conversation.approvals())


FIRST, SECOND, THIRD = Payment(ACME, "98.70"), Payment(BETA, "40.00"), Payment(EVE, "7.50")
READ = "bills/march"


def test_the_question_lists_every_row_and_the_whole_document():
    text, about = question(Desk(READ, FIRST).paper)
    lines = [line for line in text.split("\n") if line.startswith(("Always", "Record"))]
    assert lines[0].startswith("Always: until 1970-01-02 ")
    assert lines[0].endswith("bank() may take these arguments from this document of mail() at step 3")
    assert lines[1:] == [
        "Always: to is column 1",
        "Always: amount is column 2",
        "Always: arguments with content stay free, and are judged as before",
        f'Always: row 1, once: to "{ACME}", amount "98.70"',
        f'Always: row 2, once: to "{BETA}", amount "40.00"',
        f'Always: row 3, once: to "{EVE}", amount "7.50"',
        "Always: together 146.2 at most",
        'Record: sender: "bills/march"',
        f'Record: text: "{ACME};98.70"',
        f'Record:   "{BETA};40.00"',
        f'Record:   "{EVE};7.50"',
    ]
    assert len(about) == 1


def test_the_trace_has_the_document_as_the_question_showed_it():
    desk = Desk(READ, FIRST)
    (record,) = [one for one in desk.paper.records if one.event is Event.ASKED]
    shown = [line for line in question(desk.paper)[0].split("\n") if line.startswith("Record")]
    traced = [line for line in WORDING.describe_lines(record.detail) if line.startswith("Record")]
    assert traced == shown
    assert len(shown) == 4


def test_rows_of_the_question_pass_without_another_one_each_once():
    desk = Desk(READ, FIRST, SECOND, Payment("FR76 3000 6000 0112 3456 7890 189", "40"))
    assert desk.waiting == 1
    desk.answer()
    assert desk.paid == [FIRST, SECOND]
    assert desk.waiting == 1


def test_calls_of_one_result_are_answered_together():
    desk = Desk(READ, [FIRST, SECOND, THIRD])
    assert desk.waiting == 3
    desk.answer()
    assert desk.paid == [FIRST, SECOND, THIRD]
    assert not desk.waiting


def test_once_lets_one_call_pass_and_its_row_is_not_paid_again():
    desk = Desk(READ, FIRST, SECOND, FIRST).answer(Answer.ONCE)
    assert (desk.paid, desk.waiting) == ([FIRST], 1)
    text, _ = question(desk.paper)
    assert f'once: to "{ACME}"' not in text
    assert "Always: together 47.5 at most" in text
    desk.answer()
    assert (desk.paid, desk.waiting) == ([FIRST, SECOND], 1)


@pytest.mark.parametrize(
    "other",
    [
        Payment(BETA, "98.70"),
        Payment(BETA, "4000"),
        Payment("GB33BUKB20201555555555", "40.00"),
        FIRST,
    ],
    ids=["amount of another row", "another amount", "another account", "the same row"],
)
def test_a_combination_that_the_question_did_not_show_is_asked(other):
    desk = Desk(READ, FIRST, other).answer()
    assert (desk.paid, desk.waiting) == ([FIRST], 1)


@pytest.mark.parametrize(
    "changed",
    [f"{TABLE}\nGB33BUKB20201555555555;9000", TABLE.replace("40.00", "9000"), f"{TABLE}\nvoid"],
    ids=["a line more", "another amount", "a word more"],
)
def test_a_document_that_was_changed_is_asked_about_again(changed):
    desk = Desk(READ, FIRST, Bill("bills/march", "", "", changed), SECOND).answer()
    assert (desk.paid, desk.waiting) == ([FIRST], 1)


def test_the_same_document_read_again_stays_endorsed():
    desk = Desk(READ, FIRST, READ, SECOND).answer()
    assert (desk.paid, desk.waiting) == ([FIRST, SECOND], 0)


def test_a_sender_of_the_same_name_is_another_document():
    desk = Desk(READ, FIRST, Bill("bills/march", "", "other", TABLE), SECOND).answer()
    assert (desk.paid, desk.waiting) == ([FIRST], 1)


def test_the_operators_limit_is_that_of_all_calls_together():
    desk = Desk(READ, FIRST, SECOND, THIRD, policy=replace(POLICY, endorse_limit=110))
    assert "Always: together 110 at most" in question(desk.paper)[0]
    desk.answer()
    assert (desk.paid, desk.waiting) == ([FIRST], 1)


def test_calls_of_one_result_share_the_limit():
    desk = Desk(READ, [FIRST, SECOND, THIRD], policy=replace(POLICY, endorse_limit=110)).answer()
    assert (desk.paid, desk.waiting) == ([FIRST, THIRD], 1)
