"""Rows of one transaction, folded so that no two are about the same row of a table."""

from __future__ import annotations

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.journal.rows import DeliveryEnd, Rows
from agentserver.engines.journal.steps.numbered import StepRows
from agentserver.engines.journal.steps.step import StepMaker


class Empty:
    """An empty journal: see ``agentserver.engines.journal.steps.numbered.StoredRows``."""

    def __init__(self):
        self.next = {}

    def find(self, conversation):
        return None

    def dead(self, conversation, delivery):
        return None

    def receipt(self, number, name):
        return None

    def take(self, table, count):
        first = self.next.get(table, 1)
        self.next[table] = first + count
        return first


def group(*outcomes):
    """The rows of some steps that are written together."""
    made, rows, steps = StepMaker(), Rows(), StepRows(Empty())
    for outcome in outcomes:
        encoded = made.encode(outcome)
        step = made.step(encoded)
        steps.add(step, rows)
        made.kept(encoded, step)
    return rows


def test_a_conversation_that_begins_and_goes_on_is_one_row():
    story = SampleConversation()
    begun = story.opened()
    said = story.said(begun, "1")
    rows = group(said)
    folded = rows.fold()
    (opened,) = folded.opened
    assert folded.states == []
    assert opened[0] == 1
    assert opened[7] == said.conversation.version
    assert opened[6:] == next(iter(rows.states.values()))[:-1]


def test_a_delivery_that_comes_and_ends_is_one_row_with_its_end():
    story = SampleConversation()
    said = story.said(story.opened(), "1")
    answered = story.answered(said.conversation, said.ready[0])
    rows = group(said, answered)
    folded = rows.fold()
    assert folded.ended == []
    (one,) = [row for row in folded.deliveries if row[2] == said.ready[0].id]
    assert one[13] == DeliveryEnd.DONE
    assert one[13:] == rows.ended[one[0]][:4]
    assert len(folded.deliveries) == len(rows.deliveries)


def test_the_end_of_an_older_delivery_names_the_conversation_whose_step_ended_it():
    rows = Rows()
    rows.end(7, 3, DeliveryEnd.REDRIVEN, "redriven in conversation x", 5.0)
    (ended,) = rows.fold().ended
    assert (ended.number, ended.within, ended.state) == (7, 3, DeliveryEnd.REDRIVEN)


def test_folding_changes_nothing():
    story = SampleConversation()
    rows = group(story.said(story.opened(), "1"))
    assert rows.fold() == rows.fold()
