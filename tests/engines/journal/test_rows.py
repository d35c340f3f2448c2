"""Rows of one transaction, folded so that no two are about the same row of a table."""

from __future__ import annotations

from agentserver.core.decide.requeue import redrive
from agentserver.core.messages import RedrivenLetter
from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.journal import seal
from agentserver.engines.journal.rows import DeliveryEnd, DeliveryRow, Rows
from agentserver.engines.journal.step_data import StepMaker
from agentserver.engines.journal.step_rows import StepRows


class Empty:
    """An empty journal: see ``agentserver.engines.journal.step_rows.StoredRows``."""

    def __init__(self):
        self.next = {}
        self.letters = {}

    def find(self, conversation):
        return None

    def dead(self, conversation, delivery):
        return self.letters.get((conversation, delivery))

    def receipt(self, number, name):
        return None

    def number_conversation(self):
        return self.take("conversation", 1)

    def number_step(self, deliveries, events):
        return self.take("step", 1), self.take("delivery", deliveries), self.take("event", events)

    def take(self, table, count):
        first = self.next.get(table, 1)
        self.next[table] = first + count
        return first


def group(*outcomes):
    """The rows of some steps that are written together."""
    made, rows, steps = StepMaker(), Rows(), StepRows(Empty())
    for outcome in outcomes:
        encoded = made.encode(outcome)
        step = made.make_step(encoded)
        steps.add(step, rows)
        made.note_stored(encoded, step)
    return rows


def test_a_conversation_that_begins_and_continues_is_one_row():
    story = SampleConversation()
    begun = story.start()
    said = story.receive(begun, "1")
    rows = group(said)
    folded = rows.fold()
    (opened,) = folded.opened
    assert folded.states == []
    assert opened[0] == 1
    assert opened[7] == said.conversation.version
    assert opened[6:] == next(iter(rows.states.values()))[:-1]


def test_a_delivery_that_comes_and_ends_is_one_row_with_its_end():
    story = SampleConversation()
    said = story.receive(story.start(), "1")
    for end, ending in ((story.answer, DeliveryEnd.DONE), (story.fail, DeliveryEnd.DEAD)):
        rows = group(said, end(said.conversation, said.ready[0]))
        folded = rows.fold()
        assert folded.ended_deliveries == folded.queued == folded.unqueued == []
        (one,) = [row for row in folded.deliveries if row[2] == said.ready[0].id]
        assert one[13] == ending
        assert one[16] == seal.mark(one[0], *one[13:16])
        assert len(folded.deliveries) == len(rows.deliveries)


def test_a_delivery_that_is_done_is_not_written_again():
    """Its page would be written twice: its step says that it is done, and the queue lacks it."""
    story, steps, made = SampleConversation(), StepRows(Empty()), StepMaker()
    said = story.receive(story.start(), "1")
    answered = story.answer(said.conversation, said.ready[0])
    before, after = Rows(), Rows()
    for outcome, rows in ((said, before), (answered, after)):
        steps.add(made.make_step(made.encode(outcome)), rows)
    assert [row[:3] for row in before.fold().queued] == [(1, 1, 0)]
    folded = after.fold()
    assert (folded.ended_deliveries, folded.queued, folded.unqueued) == ([], [], [(1, 1)])


def test_a_delayed_delivery_is_queued_when_its_time_has_come():
    story, steps, made = SampleConversation(), StepRows(Empty()), StepMaker()
    said = story.receive(story.start(), "1")
    slept = story.sleep(said.conversation, said.ready[0], 5.0)
    woken = story.wake(slept.conversation)
    found = []
    for outcome in (said, slept, woken):
        rows = Rows()
        steps.add(made.make_step(made.encode(outcome)), rows)
        found.append([row[:3] for row in rows.fold().queued])
    assert found[1:] == [[(1, 2, 1)], [(1, 2, 0)]]


def test_a_dead_letter_that_becomes_a_request_is_ended_within_the_conversation_of_that_request():
    story = SampleConversation()
    said = story.receive(story.start(), "1")
    failed = story.fail(said.conversation, said.ready[0])
    letter = RedrivenLetter(said.ready[0], "again", "ada")
    again = redrive(story.start(), letter, story.rules, story.moment())
    stored, made = Empty(), StepMaker()
    steps = StepRows(stored)

    def fold_rows(outcome):
        rows = Rows()
        steps.add(made.make_step(made.encode(outcome)), rows)
        return rows.fold()

    before, dead = fold_rows(said), fold_rows(failed)
    stored.letters[said.conversation.id, said.ready[0].id] = DeliveryRow(*dead.ended_deliveries[0][4:6])
    after = fold_rows(again)
    assert [(one.state, one.within) for one in dead.ended_deliveries] == [
        (DeliveryEnd.DEAD, before.opened[0][0])
    ]
    assert [(one.state, one.within) for one in after.ended_deliveries] == [
        (DeliveryEnd.REDRIVEN, after.opened[0][0])
    ]
    assert after.ended_deliveries[0][4:6] == dead.ended_deliveries[0][4:6]
    assert after.opened[0][0] != before.opened[0][0]


def test_folding_changes_nothing():
    story = SampleConversation()
    rows = group(story.receive(story.start(), "1"))
    assert rows.fold() == rows.fold()
