from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver import HandlerResponse
from agentserver.codec import write_json
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.decide.requeue import requeue
from agentserver.core.encoding.codecs import RECORDS, StoredMessage, StoredRecord
from agentserver.core.messages import ConversationClosing, OutsideMessage, RejectedMessage, RequeuedLetter
from agentserver.core.records.audit import Event
from agentserver.core.records.details import FreeText
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.history.replay import describe_step, replay
from tests.core.paper import Answer as Reply
from tests.core.paper import Ask, Note, Paper, listener, rules
from tests.engines.stories import story_of

SHOP = rules(listener("agent", "tool"), listener("tool"), listener("dud"))


def agent(call):
    if isinstance(call.payload, Ask):
        return HandlerResponse(Ask(call.payload.text), "tool")
    return HandlerResponse.respond(Reply("done"))


def dud(call):
    raise RuntimeError("no")


HANDLERS = {"agent": agent, "tool": lambda call: HandlerResponse.respond(Note("ok")), "dud": dud}


@pytest.fixture
def paper():
    paper = Paper(SHOP, HANDLERS)
    paper.say(Ask("tea"), "agent")
    return paper.run()


def change_steps(story, version, /, **fields):
    steps = tuple(step._replace(**fields) if step.version == version else step for step in story.steps)
    return replace(story, steps=steps)


def alter_record(story, version, change):
    """The story with a record of a step changed."""
    (step,) = (step for step in story.steps if step.version == version)
    kept = [
        StoredRecord(*(one[name] for name in StoredRecord._fields[:-1]), StoredMessage(*(one[name] for name in StoredMessage._fields)))
        for one in (change(record._asdict()) for record in story.records_of(step))
    ]  # fmt: skip
    return change_steps(story, version, records=RECORDS.dump(tuple(kept)))


def test_every_kind_of_decision_is_taken_again(paper):
    paper.ask("x", "dud")
    letter = next(d for outcome in paper.outcomes for d in outcome.added if d.to == "dud")
    paper.apply(requeue(paper.conversation, RequeuedLetter(letter, "ops"), SHOP, paper.moment()))
    paper.run()
    outside = OutsideMessage(b"<x/>", "late", None)
    paper.apply(decisions.turn_away(paper.conversation, outside, Code.BUSY, SHOP, paper.moment()))
    paper.apply(decisions.close(paper.conversation, SHOP, paper.moment(), "enough"))
    assert replay(story_of(paper), SHOP) is None


def test_a_difference_in_a_refusal_names_finisher_message_and_reason(paper):
    found = replay(story_of(paper), rules(listener("agent"), listener("tool"), listener("dud")))
    assert str(found) == (
        "step 2 (agent finished with Ask from console): "
        "then sent agent -> tool Ask; now refused agent -> tool routing: tool is no peer of agent"
    )


def test_another_message_is_described_by_its_first_difference(paper):
    story = story_of(paper)
    cause = story.steps[0].cause.replace(b"tea", b"tee")
    found = replay(change_steps(story, 1, cause=cause), SHOP)
    assert found.about == "a message from outside"
    assert "tea</text>" in found.recorded
    assert "tee</text>" in found.now


def test_missing_and_additional_messages(paper):
    story = story_of(paper)
    found = replay(change_steps(story, 1, records=b"[1,[]]"), SHOP)
    assert (found.recorded, found.now) == ("nothing more", "received console -> agent Ask")


@pytest.mark.parametrize(("field", "value"), [("hop", 7), ("thread", "elsewhere")])
def test_another_field_is_named(paper, field, value):
    found = replay(
        alter_record(story_of(paper), 1, lambda r: {**r, field: value} if r["event"] == Event.SENT else r),
        SHOP,
    )
    assert f"with {field} {value}" in found.recorded
    assert f"with {field} " in found.now


def test_texts_for_operators_may_differ(paper):
    assert (
        replay(alter_record(story_of(paper), 1, lambda r: {**r, "detail": FreeText("other words")}), SHOP)
        is None
    )


def test_other_events_and_versions(paper):
    story = story_of(paper)
    answered, done = story.steps[3].events
    other = (answered, done._replace(answered=False))
    assert "something else leaves it" in str(replay(change_steps(story, 4, events=other), SHOP))
    assert replay(change_steps(story, 1, version=5), SHOP).now == "step 1"


def test_an_answer_that_nothing_waits_for(paper):
    cause = write_json([1, ["decide", "a", "d", Answer.ONCE, "ann"]])
    found = replay(change_steps(story_of(paper), 2, cause=cause), SHOP)
    assert (
        str(found)
        == "step 2 (the answer once of ann): then a decision; now none can be taken: nothing waits for this answer"
    )


def test_the_names_of_causes():
    paper = Paper(SHOP, HANDLERS)
    paper.say(Ask("tea"), "agent")
    (delivery,) = paper.waiting
    assert [describe_step(cause) for cause in (RejectedMessage(b"", "r", None, Code.BUSY), ConversationClosing("idle"), RequeuedLetter(delivery, "ops"),
                                      ApprovalAnswer("a", "d", Answer.DENY, "ann"))] == [
        "a message from outside, turned away", "the end: idle", "a dead letter to agent, queued again",
        "the answer deny of ann",
    ]  # fmt: skip


def test_entries_appended_to_a_log_are_part_of_the_decision():
    def keep(call):
        call.storage.append(Note(call.payload.text))
        call.storage.append(Note("\u2603"))
        call.storage.trim(Note, 3)
        return HandlerResponse.respond(Reply(str(len(call.storage.log(Note)))))

    paper = Paper(SHOP, {**HANDLERS, "tool": keep})
    for text in "abc":
        paper.ask(text, "tool")
    story = story_of(paper)
    assert replay(story, SHOP) is None
    logged = [step.result.effects.logged for step in (story.cause(one, SHOP) for one in story.steps[1::2])]
    assert logged == [outcome.cause.result.effects.logged for outcome in paper.outcomes[1::2]]
    assert [(change.dropped, len(change.appended)) for (change,) in logged] == [(0, 2), (1, 2), (2, 2)]


def test_of_a_long_reason_a_deviation_shows_the_first_line(paper):
    story = story_of(paper)
    version = next(step.version for step in story.steps if story.records_of(step))
    reason = FreeText("blocked\nbecause of this\nand of that")
    altered = alter_record(
        story, version, lambda record: {**record, "event": Event.REFUSED, "detail": reason}
    )
    shown = str(replay(altered, SHOP))
    assert "blocked; now" in shown
    assert "because" not in shown
