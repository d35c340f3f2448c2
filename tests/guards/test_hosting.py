"""A program's own guards: they make the rules stricter, and one that fails denies and harms nothing else."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.drafts.routing import Proposal, Route
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict, open_memories
from agentserver.core.records.details import GuardNote
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.principals import Trust
from agentserver.guards import Guard, ask, deny, note
from agentserver.guards.builtin import PeersGuard
from agentserver.guards.hosting import DEPTH, MEMORY, HostedGuard, host_guards, merge_guards
from agentserver.history.replay import replay
from agentserver.wire.envelope import read_envelope
from tests.core.paper import Answer, Ask, Paper, errors, listener, rules
from tests.engines.stories import story_of

LISTENERS = (listener("a", "b"), listener("b"))
respond = HandlerResponse.respond


def shop(*guards):
    made = rules(*LISTENERS)
    names = [f"g{number}" for number in range(len(guards))]
    theirs = host_guards(dict(zip(names, guards, strict=True)), made.codecs, made.blueprint.listeners)
    return rules(*LISTENERS, guards=(PeersGuard(), *theirs))


def paper(*guards):
    answering = {"a": lambda call: HandlerResponse(Ask(call.payload.text), "b") if isinstance(call.payload, Ask) else
                 None, "b": lambda call: respond(Answer("ok"))}  # fmt: skip
    return Paper(shop(*guards), answering)


def deny_with(guard):
    """Ask under a guard that has to deny it; gives the reason on record, which the sender does not get."""
    p = paper(guard).ask()
    assert (p.seen("b"), errors(p.seen("a"))) == ([], ["denied"])
    return refusals(p)[0]


def refusals(p):
    return [WORDING.join_lines(record.detail) for record in p.records if record.event == "refused"]


@dataclass(frozen=True)
class To(Guard):
    """Answers as instructed about messages to b."""

    verdict: object
    observed: object = None

    def judge(self, message, memory):
        if message.to == "b":
            return self.verdict(message, memory) if callable(self.verdict) else self.verdict
        return None

    def observe(self, message, memory):
        return self.observed(message, memory) if callable(self.observed) else memory


def test_a_silent_guard_changes_nothing_and_stores_nothing():
    p = paper(To(None)).ask()
    assert p.seen("b") == [Ask("hi")]
    assert p.conversation.memory["g0"] is None


def test_a_denial_is_refused_and_the_log_names_the_guard_the_sender_does_not_learn_it():
    assert deny_with(To(deny("not today"))) == "the guard g0 denies it: not today"


def test_a_remark_is_recorded():
    p = paper(To(note("seen"))).ask()
    flagged = [WORDING.join_lines(r.detail) for r in p.records if r.event == "flagged"]
    assert flagged == ["g0: seen"]


def test_a_guard_sees_sender_recipient_content_and_time():
    shown = []
    p = paper(To(lambda message, _: shown.append(message), lambda message, _: shown.append(message))).ask()
    given, said = [message for message in shown if message.sender in {"console", "a"}][:2]
    assert (given.sender, given.to, given.outside, given.route) == ("console", "a", True, None)
    assert (said.sender, said.to, said.outside, said.route) == ("a", "b", False, "peer")
    assert given.payload == said.payload == Ask("hi")
    assert said.at.tzinfo is UTC
    assert said.root.endswith("}Ask")
    assert said.thread in p.conversation.tree.nodes


def test_a_guards_change_of_a_payload_reaches_no_other():
    @dataclass(frozen=True)
    class Vandal(Guard):
        def judge(self, message, memory):
            object.__setattr__(message.payload, "text", "changed")

    p = paper(
        Vandal(), To(lambda message, _: None if message.payload == Ask("hi") else deny("changed"))
    ).ask()
    assert p.seen("b") == [Ask("hi")]


class Rude(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("oops"), "ValueError: oops"), (SystemExit(3), "SystemExit: 3"), (Rude(), "Rude"),
     (RecursionError(), "RecursionError")],
)  # fmt: skip
def test_a_guard_that_raises_denies_and_the_log_says_where(error, told):
    def judge(message, memory):
        raise error

    refusal = deny_with(To(judge))
    assert refusal.startswith("the guard g0 failed: ")
    assert told in refusal
    assert "test_hosting.py:" in refusal


@pytest.mark.parametrize("nonsense", [True, False, "deny", 0, deny, deny(3), ask(None), ask("x", [1]), ()])
def test_an_invalid_verdict_denies(nonsense):
    guard = To(nonsense if not callable(nonsense) else lambda *_: nonsense)
    assert "which is no verdict" in deny_with(guard)


class MaskedVerdict:
    @property
    def __class__(self):
        raise SystemExit("no class")


class Nameless(type):
    @property
    def __name__(cls):
        raise SystemExit("no name")


class VeiledVerdict(DenyVerdict):
    def __getattribute__(self, name):
        raise SystemExit(name)


class Shy(tuple):
    __slots__ = ()

    def __iter__(self):
        raise SystemExit("no parts")


@pytest.mark.parametrize(
    "verdict",
    [lambda *_: MaskedVerdict(), lambda *_: Nameless("Verdict", (), {})(), lambda *_: VeiledVerdict(Code.DENIED, "no"),
     lambda *_: NeedsApproval("may it?", Shy("a")), lambda *_: ask("may it?", ["x" * (MEMORY + 1)])],
    ids=["class", "name", "reason", "about", "length"],
)  # fmt: skip
def test_a_verdict_that_cannot_be_looked_at_denies(verdict):
    assert deny_with(To(verdict)).startswith("the guard g0 failed: ")


class Loud(str):
    """A text whose every method that a server might call is the guard's own."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __format__ = __len__ = __iter__ = __eq__ = __hash__ = encode = splitlines = replace = __str__


@pytest.mark.parametrize(
    "verdict",
    [lambda *_: deny(Loud("x")), lambda *_: note(Loud("x")), lambda *_: ask(Loud("x"), ["x"]),
     lambda *_: ask("x", [Loud("x")])],
    ids=["deny", "note", "ask", "about"],
)  # fmt: skip
def test_the_words_of_a_verdict_are_plain_texts(verdict):
    p = paper(To(verdict)).ask()
    said = next(r for r in p.records if r.event in {"refused", "flagged", "asked"})
    assert WORDING.join_lines(said.detail).endswith("x")
    assert restore(take(p.conversation, p.rules.guards), p.rules.guards).memory == p.conversation.memory


class AnnotatedError(Exception):
    @property
    def __notes__(self):
        raise SystemExit("no notes")


class UntracedError(Exception):
    @property
    def __traceback__(self):
        raise SystemExit("no trace")


@pytest.mark.parametrize(
    "error",
    [SyntaxError("x", ("f", 1, 1, 5)), AnnotatedError(), UntracedError()],
    ids=["text", "notes", "trace"],
)
def test_an_unprintable_exception_denies(error):
    def judge(message, memory):
        raise error

    assert deny_with(To(judge)) == "the guard g0 failed: the text of its exception raised as well"


def test_no_guard_overrules_a_denial_of_the_servers_own():
    made = shop(To(note("fine by me")))
    p = Paper(
        made, {"b": lambda call: HandlerResponse(Ask("x"), "a") if isinstance(call.payload, Ask) else None}
    ).ask("hi", "b")
    assert errors(p.seen("b")) == ["routing"]
    assert refusals(p) == ["a is no peer of b"]


def test_guards_are_asked_in_order_and_the_first_denial_is_the_last_word():
    order = []

    def give_verdict(name, verdict):
        def judge(message, memory):
            order.append(name)
            return verdict

        return To(judge)

    made = shop(
        give_verdict("first", ask("may it?")), give_verdict("second", deny("no")), give_verdict("third", None)
    )
    p = Paper(
        made, {"a": lambda call: HandlerResponse(Ask("x"), "b") if isinstance(call.payload, Ask) else None}
    ).ask()
    assert order[:2] == ["first", "second"]
    assert "third" not in order
    assert p.seen("b") == []


# Memory


@dataclass(frozen=True)
class Once(Guard):
    """Lets a text pass once in a conversation."""

    def begin(self):
        return []

    def observe(self, message, memory):
        return [*memory, message.payload.text] if message.to == "b" else memory

    def judge(self, message, memory):
        return (
            deny(f"again: {message.payload.text}")
            if message.to == "b" and message.payload.text in memory
            else None
        )


def test_a_guards_memory_belongs_to_the_conversation():
    p = paper(Once())
    for text in ("one", "two", "one"):
        p.ask(text)
    assert [payload.text for payload in p.seen("b")] == ["one", "two"]
    assert refusals(p) == ["the guard g0 denies it: again: one"]


def test_a_memory_is_stored_and_restored():
    p = paper(Once()).ask("one")
    kept = take(p.conversation, p.rules.guards)
    assert kept.values["guard g0", "memory"] == b'["one"]'
    assert restore(kept, p.rules.guards).memory == p.conversation.memory


def test_a_recorded_conversation_is_decided_again_as_it_was():
    p = paper(Once())
    for text in ("one", "one"):
        p.ask(text)
    assert replay(story_of(p), p.rules) is None
    lenient = shop(To(None))
    assert "routing" not in str(replay(story_of(p), lenient))
    assert replay(story_of(p), lenient) is not None


def test_a_guard_gets_a_copy_of_its_memory_as_json_gives_it_back():
    def judge(message, memory):
        memory["seen"].append("by judge")

    def observe(message, memory):
        return memory or {"seen": ("a tuple",)}

    p = paper(To(judge, observe)).ask("one")
    assert p.conversation.memory["g0"].stored == b'{"seen":["a tuple"]}'


def nest_value(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (object(), "not JSON serializable"),
        ("x" * MEMORY, "more than"),
        (float("nan"), "not JSON compliant"),
        ({1, 2}, "set"),
        (nest_value(DEPTH + 2), "levels deep"),
        ({"a": nest_value(DEPTH * 4)}, "levels deep"),
    ],
)
def test_a_memory_that_cannot_be_kept_denies_the_rest_of_the_conversation(memory, told):
    p = paper(To(None, lambda *_: memory)).ask("one")
    assert p.seen("b") == []
    assert refusals(p)[0].startswith("the guard g0 denies the rest of the conversation: ")
    assert told in refusals(p)[0]
    restored = restore(take(p.conversation, p.rules.guards), p.rules.guards)
    assert restored.memory == p.conversation.memory


def test_a_memory_that_was_kept_can_be_read_far_down_a_stack():
    p = paper(To(None, lambda *_: nest_value(DEPTH))).ask("one")
    kept = take(p.conversation, p.rules.guards)

    def descend_levels(levels):
        return descend_levels(levels - 1) if levels else restore(kept, p.rules.guards)

    assert p.seen("b") == [Ask("one")]
    assert descend_levels(sys.getrecursionlimit() // 2).memory == p.conversation.memory


@pytest.mark.parametrize("hook", ["begin", "observe", "miss"])
def test_a_guard_that_fails_to_remember_denies_the_rest_of_the_conversation(hook):
    def fail(*_):
        raise OSError("gone")

    kind = type("Failing", (To,), {hook: fail})
    p = paper(kind(None))
    guard = p.rules.guards[1]
    memory = guard.begin(Trust.ORDERS) if hook == "begin" else guard.miss(None) if hook == "miss" else None
    if hook == "observe":
        p.ask("one")
        memory = p.conversation.memory["g0"]
    assert "OSError: gone" in memory.broken
    assert guard.miss(memory) is memory
    assert guard.load(guard.dump(memory)) == memory


def test_a_conversation_that_is_older_than_the_guard_was_missed():
    class Strict(To):
        def miss(self, memory):
            return "missed"

    p = paper().ask("one")
    guards = shop(Strict(None)).guards
    assert restore(take(p.conversation), guards).memory["g0"].stored == b'"missed"'
    assert open_memories(guards)["g0"] is None


# What a person approves


def test_a_permanent_approval_is_not_asked_again():
    p = paper(To(lambda message, _: ask(f"send {message.payload.text}?")))
    for text in ("one", "one", "two"):
        p.ask(text)
        for approval in p.conversation.approvals():
            p.decide(Said.ALWAYS, approval)
        p.run()
    asked = [WORDING.join_lines(r.detail) for r in p.records if r.event == "asked"]
    assert len(asked) == 2
    assert [payload.text for payload in p.seen("b")] == ["one", "one", "two"]
    memory = p.conversation.memory["g0"]
    guard = p.rules.guards[1]
    assert guard.load(guard.dump(memory)) == memory


def test_a_guard_defines_the_scope_of_an_approval():
    p = paper(To(lambda message, _: ask("write to b?", about=["b"])))
    for text in ("one", "two"):
        p.ask(text)
        for approval in p.conversation.approvals():
            p.decide(Said.ALWAYS, approval)
        p.run()
    assert sum(r.event == "asked" for r in p.records) == 1
    assert p.conversation.memory["g0"].approved == {"b"}


# Which guards there can be


class Async(Guard):
    async def judge(self, message, memory):
        return None


class Picky(To):
    def check(self, listeners):
        if "c" not in listeners:
            raise ValueError('"c" is no listener')


@pytest.mark.parametrize(
    ("guards", "error", "told"),
    [
        ({"x": object()}, TypeError, "the guard x: object is not a guard; derive it from agentserver.guards.Guard"),
        ({"x": Async()}, TypeError, "the guard x: Async.judge must be declared with def, because a guard cannot await"),
        ({"peers": To(None)}, ValueError, '"peers" is no name for a guard: the server\'s own are approval, denials, lineage, peers'),
        ({"": To(None)}, ValueError, '"" is no name for a guard'),
        ({"x": Picky(None)}, ValueError, 'the guard x: "c" is no listener'),
    ],
)  # fmt: skip
def test_an_invalid_guard_is_refused(guards, error, told):
    made = rules(*LISTENERS)
    with pytest.raises(error) as caught:
        host_guards(guards, made.codecs, made.blueprint.listeners)
    assert told in str(caught.value)


def test_a_guard_may_have_slots():
    @dataclass(frozen=True, slots=True)
    class Slotted(Guard):
        word: str

        def judge(self, message, memory):
            return deny(self.word)

    p = paper(Slotted("no"))
    p.say(Ask("hi"), "a")
    assert errors(p.replies) == ["denied"]


def test_a_dead_letter_as_a_new_request_is_not_the_principals():
    made = rules(*LISTENERS)
    guard = HostedGuard(
        "g", To(lambda message, _: note(str(message.outside))), made.codecs, made.blueprint.listeners
    )
    p = paper(To(None)).ask()
    said = _proposal(p)._replace(sender=listener("console"))
    assert guard.judge(None, said, 0.0) == NoteVerdict(GuardNote("g", "True", "notes"))
    assert guard.judge(None, said._replace(route=Route.REDRIVEN), 0.0) == NoteVerdict(
        GuardNote("g", "False", "notes")
    )


def test_a_class_without_a_judge_is_no_guard():
    with pytest.raises(TypeError):
        type("Idle", (Guard,), {})()


def test_two_guards_bear_two_names():
    first, second = To(None), To(None)
    assert list(merge_guards([("b", first)], [("a", second)])) == ["b", "a"]
    with pytest.raises(ValueError, match='two guards are called "b"'):
        merge_guards([("b", first)], [("b", second)])


def test_a_time_that_no_calendar_has_denies():
    made = rules(*LISTENERS)
    guard = HostedGuard("g", To(None), made.codecs, made.blueprint.listeners)
    p = paper(To(None)).ask()
    proposal = _proposal(p)
    assert WORDING.join_lines(guard.judge(None, proposal, 1e18).reason).startswith("the guard g failed: ")
    assert guard.judge(None, proposal, 0.0) is None
    shown = HostedGuard("g", To(lambda message, _: note(f"{message.at:%H:%M}")), made.codecs, {})
    assert shown.judge(None, proposal, datetime(2020, 1, 1, 9, 30, tzinfo=UTC).timestamp()) == NoteVerdict(
        GuardNote("g", "09:30", "notes")
    )


def _proposal(p):
    delivery = next(d for outcome in p.outcomes for d in outcome.added if d.to == "b")
    element = read_envelope(delivery.message).payload
    return Proposal(listener("a", "b"), "t", "b", Route.PEER, delivery.root, "", element)
