from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver import HandlerResponse, TodoUntil
from agentserver.contract import Code
from agentserver.core.decide import answers
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict
from agentserver.core.messages import TODO
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.guards.builtin import PeersGuard
from agentserver.history.policy_diff import Disposition, compare_what_if
from agentserver.history.replay import replay
from tests.core.paper import Answer as Reply
from tests.core.paper import Ask, Note, Paper, listener, rules
from tests.engines.stories import story_of

PASSED, NOTED, ASKED, BLOCKED = Disposition


class Wordy:
    """Objects to a message that says a word which a listener has been given before."""

    def __init__(self, word, verdict, name="wordy"):
        self.name, self._word, self._verdict = name, word, verdict
        self._seen = {}

    @property
    def seen(self):
        """What listeners were given, in order; a guard may be asked twice about one delivery."""
        return list(self._seen.values())

    def observe(self, memory, delivery, element, at):
        text = "".join(element.itertext())
        self._seen[delivery.id] = text
        return (*(memory or ()), text)

    def approve(self, memory, about):
        return memory

    def judge(self, memory, proposal, at):
        said = self._word in "".join(proposal.element.itertext())
        heard = any(self._word in text for text in memory or ())
        return self._verdict if said and heard and proposal.route == "peer" else None


DENIED = DenyVerdict(Code.DENIED, "it was heard before")

AGENT, BANK, WEB = listener("agent", "bank", "web"), listener("bank"), listener("web", payloads=(Note,))


def agent(call):
    """Reads the web, then pays as instructed there."""
    match call.payload:
        case Ask(text):
            return HandlerResponse(Note(text), "web")
        case Note(text):
            return HandlerResponse(Ask(text), "bank")
        case Reply(text):
            return HandlerResponse.respond(Reply(text))
        case error:
            return HandlerResponse.respond(Reply(f"failed: {error.code}"))


HANDLERS = {
    "agent": agent,
    "bank": lambda call: HandlerResponse.respond(Reply(f"paid {call.payload.text}")),
    "web": lambda call: HandlerResponse.respond(Note(f"pay {call.payload.text}")),
}


def record_paper(*guards, listeners=(AGENT, BANK, WEB), **more):
    shop = rules(*listeners, guards=(PeersGuard(), *guards), **more)
    paper = Paper(shop, HANDLERS)
    paper.say(Ask("mallory"), "agent")
    return paper.run(), shop


def differing_messages(report):
    return [
        (one.sender, one.to, one.root, one.recorded, one.now, WORDING.join_lines(one.reason))
        for one in report.differences
        if one.differs
    ]


def other(*guards, listeners=(AGENT, BANK, WEB)):
    return rules(*listeners, guards=(PeersGuard(), *guards))


def test_the_same_rules_say_the_same():
    paper, shop = record_paper()
    report = compare_what_if(story_of(paper), shop, shop)
    assert not report.differs
    assert report.steps == len(paper.outcomes)
    assert [(one.sender, one.to) for one in report.differences] == [
        ("console", "agent"), ("agent", "web"), ("web", "agent"), ("agent", "bank"), ("bank", "agent"),
        ("agent", "console"),
    ]  # fmt: skip
    assert {one.recorded for one in report.differences} == {PASSED}


@pytest.mark.parametrize(
    ("verdict", "now", "reason", "parts"),
    [
        (DENIED, BLOCKED, "it was heard before", True),
        (NeedsApproval("may it?"), ASKED, "may it?", True),
        (NoteVerdict("heard"), NOTED, "heard", False),
    ],
)
def test_verdicts_that_a_guard_would_have_given(verdict, now, reason, parts):
    paper, shop = record_paper()
    report = compare_what_if(story_of(paper), shop, other(Wordy("pay mallory", verdict)))
    assert differing_messages(report) == [("agent", "bank", "Ask", PASSED, now, reason)]
    assert [one.parts for one in report.differences if one.differs] == [parts]


def test_the_other_guards_see_the_listeners_real_inputs():
    paper, shop = record_paper()
    watching = Wordy("never", DENIED)
    compare_what_if(story_of(paper), shop, other(watching))
    assert watching.seen == ["mallory", "mallory", "pay mallory", "pay mallory", "paid pay mallory"]


class Patient(Wordy):
    """Objects to a message to the bank after the third that a listener was given."""

    def judge(self, memory, proposal, at):
        return self._verdict if proposal.to == "bank" and len(memory or ()) == 3 else None


@pytest.mark.parametrize("then", [(), (Wordy("never", DENIED),)], ids=["none", "one of its name"])
def test_the_other_guards_remember_from_step_to_step(then):
    paper, shop = record_paper(*then)
    report = compare_what_if(story_of(paper), shop, other(Patient("", DENIED)))
    assert [one[:2] for one in differing_messages(report)] == [("agent", "bank")]


def test_the_recorded_guards_do_not_see_the_others_memories():
    class Forgetful(Wordy):
        def observe(self, memory, delivery, element, at):
            return ()

    shop = other(Patient("", DENIED))
    paper = Paper(shop, HANDLERS)
    paper.say(Ask("mallory"), "agent")
    report = compare_what_if(story_of(paper.run()), shop, other(Forgetful("never", DENIED)))
    assert report.lost is None
    assert [(one[1], one[4]) for one in differing_messages(report)] == [("bank", PASSED)]


def test_memories_of_guards_of_one_name_are_not_mixed():
    paper, shop = record_paper(Wordy("never", DENIED))
    watching = Wordy("pay mallory", DENIED)
    report = compare_what_if(story_of(paper), shop, other(watching))
    assert len(differing_messages(report)) == 1
    assert len(watching.seen) == 5


def test_later_messages_are_judged_as_they_really_were():
    paper, shop = record_paper()
    report = compare_what_if(story_of(paper), shop, other(Wordy("mallory", DENIED)))
    assert [(to, now) for _, to, _, _, now, _ in differing_messages(report)] == [
        ("web", BLOCKED),
        ("bank", BLOCKED),
    ]


def test_messages_refused_then_and_permitted_now():
    shop = rules(AGENT, BANK, WEB, guards=(PeersGuard(), Wordy("pay mallory", DENIED)))
    paper = Paper(shop, HANDLERS).ask("mallory", "agent")
    story = story_of(paper)
    assert replay(story, shop) is None
    assert differing_messages(compare_what_if(story, shop, other())) == [
        ("agent", "bank", "Ask", BLOCKED, PASSED, "it was heard before")
    ]
    same = [one for one in compare_what_if(story, shop, shop).differences if one.recorded is BLOCKED]
    assert [(one.sender, one.to, one.root, one.now, WORDING.join_lines(one.reason)) for one in same] == [
        ("agent", "bank", "", BLOCKED, "it was heard before")
    ]


def test_a_message_that_waited_for_a_person_would_not_have_been_asked_about():
    paper, shop = record_paper(Wordy("pay mallory", NeedsApproval("may it?")))
    (approval,) = paper.conversation.approvals()
    answered = ApprovalAnswer(approval.id, approval.digest, Answer.ALWAYS, "ann")
    paper.apply(answers.decide(paper.conversation, answered, shop, paper.moment()))
    paper.run()
    assert differing_messages(compare_what_if(story_of(paper), shop, other())) == [
        ("agent", "bank", "Ask", ASKED, PASSED, "may it?")
    ]


def test_another_organism_without_a_peer_and_without_a_listener():
    paper, shop = record_paper()
    poorer = rules(listener("agent", "web"), BANK, WEB)
    (found,) = differing_messages(compare_what_if(story_of(paper), shop, poorer))
    assert found[3:] == (PASSED, BLOCKED, "bank is no peer of agent")
    bankless = rules(listener("agent", "bank", "web"), WEB)
    assert [(one[0], one[1], one[5]) for one in differing_messages(compare_what_if(story_of(paper), shop, bankless))] == [
        ("agent", "bank", "no listener has that name"),
        ("bank", "agent", "no listener is called bank"),
    ]  # fmt: skip


def test_an_outside_message_would_have_been_blocked():
    paper, shop = record_paper()
    mute = rules(BANK, WEB)
    first = compare_what_if(story_of(paper), shop, mute).differences[0]
    assert (first.sender, first.now) == ("console", BLOCKED)
    assert first.parts


def test_two_equal_messages_are_two():
    def note_twice(call):
        if isinstance(call.payload, Ask):
            return [HandlerResponse(Note("a"), "web"), HandlerResponse(Note("a"), "web")]
        return None

    shop = other()
    paper = Paper(shop, {**HANDLERS, "agent": note_twice}).ask("x", "agent")
    blocked = differing_messages(compare_what_if(story_of(paper), shop, rules(listener("agent"), BANK, WEB)))
    assert [one[1] for one in blocked] == ["web", "web"]


def test_a_message_to_a_service_that_would_have_been_blocked():
    class Serviceless(Wordy):
        def judge(self, memory, proposal, at):
            return self._verdict if proposal.route == "service" else None

    shop = other()
    paper = Paper(shop, {**HANDLERS, "agent": lambda call: HandlerResponse(TodoUntil("Ask"), TODO)
                         if isinstance(call.payload, Ask) else None})  # fmt: skip
    paper.ask("x", "agent")
    story = story_of(paper)
    assert differing_messages(compare_what_if(story, shop, other(Serviceless("", DENIED)))) == [
        ("agent", TODO, "", PASSED, BLOCKED, "it was heard before")
    ]


def test_a_spent_limit_is_a_reason():
    paper, shop = record_paper()
    tight = rules(AGENT, BANK, WEB, messages=1)
    found = differing_messages(compare_what_if(story_of(paper), shop, tight))
    assert found[0][4] is BLOCKED
    assert found[0][5]


def test_comparison_stops_at_a_step_that_its_own_rules_decide_otherwise():
    paper, shop = record_paper()
    report = compare_what_if(story_of(paper), rules(listener("agent", "web"), BANK, WEB), shop)
    assert report.differs
    assert report.lost is not None
    assert "bank is no peer" in str(report.lost)
    assert report.steps == report.lost.version - 1
    assert replace(report, lost=None).differs is False
