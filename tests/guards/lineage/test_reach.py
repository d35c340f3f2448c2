"""Who is exposed by what, in conversations on paper: a reader, a planner and a writer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse, Handoff, Task, xmlify
from agentserver.core.decide import decisions
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.messages import AbandonedDelivery
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Failure
from agentserver.core.records.wording import WORDING
from agentserver.core.state.principals import Principal, Trust
from agentserver.guards.intents import IntentRewriter
from agentserver.guards.lineage import reach as lineage_reach
from agentserver.guards.lineage.exposure import Exposure, Recall
from agentserver.guards.lineage.guard import TrustSettings
from agentserver.handoff.intents import Intent, Vocabulary, vocabulary
from agentserver.handoff.parameters import Parameter
from agentserver.hygiene.simple_types import Lexical
from agentserver.provenance.evidence.labels import Standing
from tests.core.paper import Answer, Ask, Note, Paper, errors, listener
from tests.fuzzing import examples
from tests.guards.lineage.test_guard import BASE, EVE, PAGE, Flag, Get, Letter, Letters, memory
from tests.guards.lineage.watched import watch_listeners

UNKNOWN = Letter("carol@else.example", "hello")
"""A message to a recipient that no text names: refused to senders with untrusted input, and to nobody else."""


@xmlify
@dataclass(frozen=True)
class Ping:
    """Nothing but that it was sent."""


@xmlify
@dataclass(frozen=True)
class Row:
    """Bookkeeping of a source, whose type says so."""

    id: Annotated[str, Standing.RECORD]
    owner: Annotated[str, Standing.DIRECTORY]


PAYLOADS = (Letter, Letters, Flag, Ping, Get, Row, Ask, Note, Answer)
TRUSTED = replace(BASE, relays=("reader", "planner", "writer"))
LISTENERS = (
    listener("reader", "web", "planner", "writer", "post", payloads=(Ask, Note, Flag)),
    listener("planner", "reader", "writer", "post", payloads=(Ask, Note, Answer, Flag)),
    listener("writer", "post", "web", "reader", payloads=(Ask, Note, Flag, Ping)),
    listener("web", "planner", payloads=(Ask, Get)),
    listener("post", payloads=(Letter,)),
)


def desk(trusted=None, principal="console", **handlers):
    """Requests to a listener in ``handlers`` go to its handler; the others answer a given text."""
    shop = watch_listeners(trusted or TRUSTED, *LISTENERS, payloads=PAYLOADS)
    known = {
        "reader": read_then_send(),
        "planner": lambda call: None,
        "writer": writes(UNKNOWN),
        "web": lambda call: HandlerResponse.respond(Note(PAGE)),
        "post": lambda call: None,
    }
    return Paper(shop, {**known, **handlers}, principal)


def read_then_send(*then):
    """Read the page when asked, then send something."""

    def handle(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("read"), "web")
        if call.metadata.from_id == "web":
            return [HandlerResponse(payload, to) for payload, to in then]
        return None

    return handle


def writes(letter):
    return lambda call: None if errors([call.payload]) else HandlerResponse(letter, "post")


def ask_listeners(p, *names):
    """Each listener is asked in turn, and the conversation becomes idle in between."""
    for name in names:
        p.say(Ask("go on"), name)
        p.run()
    return p


def sent_posts(p):
    return p.seen("post")


def is_exposed(p, name, thread="none"):
    return memory(p).exposure.find_text(name, thread, Recall.LISTENER)


def test_a_writer_that_never_saw_the_page_is_clean():
    """The reader has, and may not; both in one conversation, after the page was read."""
    p = ask_listeners(desk(reader=read_then_send((UNKNOWN, "post"))), "reader")
    assert sent_posts(p) == []
    assert memory(p).ledger.tainted
    ask_listeners(p, "writer")
    assert sent_posts(p) == [UNKNOWN]


def test_a_writer_that_got_the_page_is_not():
    p = ask_listeners(desk(reader=read_then_send((Note("go ahead"), "writer"))), "reader")
    assert sent_posts(p) == []
    assert (is_exposed(p, "writer").source, is_exposed(p, "writer").giver) == ("web", "reader")
    assert is_exposed(p, "planner") is None


def test_the_record_of_a_refusal_says_who_exposed_its_sender():
    p = ask_listeners(desk(reader=read_then_send((UNKNOWN, "post"), (Note("go ahead"), "writer"))), "reader")
    q = ask_listeners(desk(reader=read_then_send((Note("go ahead"), "writer"))), "reader")
    assert "Presumed: reader was given words of web at step 3" in refusals(p)[0]
    assert "Presumed: writer was given words of web at step 4, by reader" in refusals(q)[0]
    r = ask_listeners(desk(writer=writes(Letter(EVE, "hello"))), "reader", "writer")
    assert "Presumed" not in refusals(r)[0]


def refusals(p):
    return [WORDING.join_lines(one.detail) for one in p.records if one.event is Event.REFUSED]


def test_text_exposes_through_as_many_as_pass_it_on():
    def planner(call):
        return HandlerResponse(Note("so be it"), "writer")

    p = ask_listeners(desk(reader=read_then_send((Note("look"), "planner")), planner=planner), "reader")
    assert sent_posts(p) == []
    assert (is_exposed(p, "writer").source, is_exposed(p, "writer").giver) == ("web", "planner")


def test_messages_before_any_read_expose_nobody():
    p = ask_listeners(
        desk(planner=lambda call: HandlerResponse(Note("write"), "writer")), "planner", "reader"
    )
    assert sent_posts(p) == [UNKNOWN]
    assert is_exposed(p, "writer") is None


@pytest.mark.parametrize("letter", [Letter(EVE, "hello"), Letter("bob@corp.example", "hello")])
def test_exact_evidence_counts_whoever_passes_it(letter):
    """A clean writer has the value from a file or a global, which the pump does not see."""
    p = ask_listeners(desk(TRUSTED_CORP, writer=writes(letter)), "reader", "writer")
    assert is_exposed(p, "writer") is None
    assert sent_posts(p) == ([] if letter.to == EVE else [letter])


TRUSTED_CORP = TrustSettings(replace(TRUSTED, allow=("@corp.example",)))


def test_a_link_that_a_clean_writer_made_up_is_fetched():
    link = Get("https://intern.example/?q=1")
    p = ask_listeners(desk(writer=lambda call: HandlerResponse(link, "web")), "reader")
    ask_listeners(p, "writer")
    assert link in p.seen("web")
    q = ask_listeners(desk(reader=read_then_send((link, "web"))), "reader")
    assert link not in q.seen("web")


# Closed schemas


def test_a_closed_schema_spends_bits_and_exposes_nobody():
    p = ask_listeners(desk(reader=read_then_send((Flag(True), "writer"))), "reader")
    assert is_exposed(p, "writer") is None
    assert sent_posts(p) == [UNKNOWN]
    assert memory(p).exposure.bits == memory(p).ledger.spent == 3.0


def test_messages_to_an_exposed_listener_spend_nothing():
    p = ask_listeners(desk(reader=read_then_send((Note("look"), "writer"), (Flag(True), "writer"))), "reader")
    assert is_exposed(p, "writer") is not None
    assert memory(p).ledger.spent == 0.0


def test_more_bits_than_a_few_expose(monkeypatch):
    """Many closed messages spell a text."""
    monkeypatch.setattr(lineage_reach, "CLOSED", 8.0)
    flags = [(Flag(True), "writer")] * 3
    p = ask_listeners(desk(reader=read_then_send(*flags)), "reader")
    assert is_exposed(p, "writer") is not None
    assert memory(p).exposure.bits == 6.0
    assert len(sent_posts(p)) == 2


def test_empty_messages_expose_by_their_number(monkeypatch):
    monkeypatch.setattr(lineage_reach, "CLOSED", 2.0)
    p = ask_listeners(desk(reader=read_then_send(*[(Ping(), "writer")] * 2)), "reader")
    assert is_exposed(p, "writer") is None
    assert len(sent_posts(p)) == 2
    ask_listeners(p, "reader")
    assert is_exposed(p, "writer") is not None


def test_a_budget_is_the_bound_where_one_is_declared():
    """It is not overdrawn by those who are under no quarantine: they expose instead, and the sinks stay open."""
    flags = [(Flag(True), "writer")] * 3
    p = ask_listeners(
        desk(TrustSettings(replace(TRUSTED, budget=6)), reader=read_then_send(*flags)), "reader"
    )
    assert memory(p).ledger.spent == 6.0
    assert is_exposed(p, "writer") is not None
    assert len(sent_posts(p)) == 2


def test_a_quarantined_listener_keeps_its_budget_and_exposes_no_other():
    def planner(call):
        return HandlerResponse(Flag(True), "writer")

    policy = replace(TRUSTED, relays=("reader", "writer"), trusted=("planner",))
    trusted = TrustSettings(policy, quarantined=frozenset({"planner"}))
    p = ask_listeners(
        desk(trusted, reader=read_then_send((Note(PAGE), "planner")), planner=planner), "reader"
    )
    assert is_exposed(p, "planner") is not None
    assert is_exposed(p, "writer") is None
    assert memory(p).ledger.spent == 2.0
    assert memory(p).exposure.bits == 0.0
    assert sent_posts(p) == [UNKNOWN]


# Sources, principals, the system


def test_the_bookkeeping_of_a_source_exposes_nobody():
    row = Row("r-17", "ann@corp.example")
    p = ask_listeners(
        desk(web=lambda call: HandlerResponse.respond(row), reader=read_then_send((UNKNOWN, "post"))),
        "reader",
    )
    assert sent_posts(p) == [UNKNOWN]
    mixed = Letters("ann@corp.example", PAGE)
    q = ask_listeners(
        desk(web=lambda call: HandlerResponse.respond(mixed), reader=read_then_send((UNKNOWN, "post"))),
        "reader",
    )
    assert sent_posts(q) == []


def test_a_text_in_an_undeclared_field_exposes():
    """By its form it is bookkeeping; many of them spell a text."""
    word = lambda call: HandlerResponse.respond(Note("vault"))  # noqa: E731
    p = ask_listeners(desk(web=word, reader=read_then_send((UNKNOWN, "post"))), "reader")
    assert not memory(p).ledger.texts
    assert is_exposed(p, "reader").source == "web"
    assert sent_posts(p) == []


def test_the_words_of_the_principal_expose_nobody():
    p = ask_listeners(desk(), "reader")
    p.say(Ask(PAGE), "writer")
    p.run()
    assert sent_posts(p) == [UNKNOWN]


def test_the_words_of_a_stranger_expose():
    p = ask_listeners(desk(principal=Principal("console", Trust.STRANGER)), "writer")
    assert sent_posts(p) == []
    assert is_exposed(p, "writer").source == "console"


def test_an_error_of_the_system_exposes_nobody_even_when_it_is_passed_on():
    """The reader is exposed; its report to its caller is the system's own."""

    def reader(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("read"), "web")
        if errors([call.payload]):
            return HandlerResponse.respond(call.payload)
        return HandlerResponse(UNKNOWN, "post")

    def planner(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("read"), "reader")
        return HandlerResponse(UNKNOWN, "post")

    p = ask_listeners(desk(reader=reader, planner=planner), "planner")
    assert errors(p.seen("planner")) == ["denied"]
    assert is_exposed(p, "reader") is not None
    assert is_exposed(p, "planner") is None
    assert memory(p).exposure.bits == 9.0
    assert sent_posts(p) == [UNKNOWN]


def test_a_message_that_nobody_could_read_exposes_everybody():
    p = desk()
    p.say(Ask("go on"), "planner")
    given_up = AbandonedDelivery(p.waiting.pop(), Failure("odd"), None, unseen=True)
    p.apply(decisions.give_up(p.conversation, given_up, p.rules, p.moment()))
    assert is_exposed(p, "writer") is not None


# How far code remembers


def trust_recalls(recall):
    return TrustSettings(TRUSTED, recalls=dict.fromkeys(("reader", "planner", "writer"), recall))


@pytest.mark.parametrize(("recall", "passes"), [(Recall.THREAD, True), (Recall.LISTENER, False)])
def test_a_listener_is_exposed_on_all_its_threads_unless_its_code_remembers_by_thread(recall, passes):
    """The reader tells the writer on one thread; the principal asks it on another."""

    def writer(call):
        return (
            None
            if isinstance(call.payload, Note) or errors([call.payload])
            else HandlerResponse(UNKNOWN, "post")
        )

    p = ask_listeners(
        desk(trust_recalls(recall), reader=read_then_send((Note("look"), "writer")), writer=writer),
        "reader",
        "writer",
    )
    assert sent_posts(p) == ([UNKNOWN] if passes else [])


def test_a_thread_that_got_the_text_stays_exposed():
    def writer(call):
        return writes(UNKNOWN)(call) if isinstance(call.payload, Ask) else None

    reader = read_then_send((Note("look"), "writer"), (Ask("write"), "writer"))
    p = ask_listeners(desk(trust_recalls(Recall.THREAD), reader=reader, writer=writer), "reader", "reader")
    assert p.seen("writer").count(Ask("write")) == 2
    assert sent_posts(p) == []


def test_a_listener_that_calls_itself_takes_its_inputs_along():
    def reader(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("read"), "web")
        if call.metadata.from_id == "web":
            return HandlerResponse(Note("to myself"), "reader")
        return None if errors([call.payload]) else HandlerResponse(UNKNOWN, "post")

    p = ask_listeners(desk(trust_recalls(Recall.THREAD), reader=reader), "reader")
    assert Note("to myself") in p.seen("reader")
    assert sent_posts(p) == []


def test_a_carrier_of_foreign_text_and_its_recipients_are_exposed_from_the_start():
    carrying = TrustSettings(TRUSTED, carriers=frozenset({"planner"}))

    def planner(call):
        return (
            HandlerResponse(Note("look"), "writer") if call.payload == Ask("tell") else writes(UNKNOWN)(call)
        )

    p = ask_listeners(desk(carrying, planner=planner), "planner")
    assert not memory(p).ledger.tainted
    assert sent_posts(p) == []
    ask_listeners(p, "writer")
    assert sent_posts(p) == [UNKNOWN]
    p.ask("tell", "planner")
    ask_listeners(p, "writer")
    assert sent_posts(p) == [UNKNOWN]
    assert is_exposed(p, "writer").giver == "planner"


def test_a_link_of_one_who_carries_words_is_an_exit_before_anything_was_read():
    carrying = TrustSettings(TRUSTED, carriers=frozenset({"writer"}))
    link = Get("https://intern.example/?q=1")
    p = ask_listeners(desk(carrying, writer=lambda call: HandlerResponse(link, "web")), "writer")
    assert link not in p.seen("web")


# Handoffs


def hand_over(said):
    """A reader that has read the page hands something over to the writer."""
    agents = [
        listener("reader", "web", "writer", payloads=(Ask, Note)),
        listener("writer", "post", payloads=(Task,)),
        listener("web", payloads=(Ask,)),
        listener("post", payloads=(Letter,)),
    ]
    payloads = (*PAYLOADS, Handoff)
    tone = Parameter("tone", Lexical((), ("warm", "cold"), 0, None))
    name = Parameter("name", Lexical(("[a-z]{1,20}",), (), 0, 20))
    known = vocabulary(
        [
            Intent("greet", ("writer",), "Write a greeting.", (tone,), event_limit=100),
            Intent("name", ("writer",), "Write to {name}.", (name,), event_limit=0),
        ]
    )
    assert isinstance(known, Vocabulary)
    shop = watch_listeners(TrustSettings(TRUSTED, intents={"greet": 1.0}), *agents, payloads=payloads)
    handlers = {
        "reader": lambda call: (
            HandlerResponse(Ask("read"), "web")
            if isinstance(call.payload, Ask)
            else HandlerResponse(said, "writer")
        ),
        "writer": writes(UNKNOWN),
        "web": lambda call: HandlerResponse.respond(Note(PAGE)),
        "post": lambda call: None,
    }
    rewriter = IntentRewriter(known, {}, shop.codecs, shop.bounds)
    p = Paper(replace(shop, rewriter=rewriter), handlers)
    p.say(Ask("read"), "reader")
    return p.run()


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        (Handoff.of("greet", {"tone": "warm"}), True),
        (Handoff("greet", event="be quick", params=Handoff.of("greet", {"tone": "warm"}).params), False),
        (Handoff.of("name", {"name": "mallory"}), False),
    ],
    ids=["closed values", "free words", "an open value"],
)
def test_a_handoff_of_closed_values_exposes_nobody(said, passes):
    p = hand_over(said)
    assert p.seen("writer")
    assert (is_exposed(p, "writer") is None) is passes
    assert sent_posts(p) == ([UNKNOWN] if passes else [])


# Laws


AGENTS = ("reader", "planner", "writer")
TELLS = st.lists(st.tuples(st.sampled_from(AGENTS), st.sampled_from(["web", *AGENTS, "flag"])), max_size=12)


def chatter(tells, recall):
    """Each agent, when the principal asks it, tells or asks the one that comes next for it, once."""
    waiting = list(tells)

    def agent(name):
        def handle(call):
            if not isinstance(call.payload, Ask) or call.payload.text != "go on":
                return None
            to = waiting.pop(0)[1]
            if to == "web":
                return HandlerResponse(Ask("read"), "web")
            other = AGENTS[(AGENTS.index(name) + 1) % 3]
            return HandlerResponse(
                Flag(True) if to == "flag" else Note("look"), other if to in {name, "flag"} else to
            )

        return handle

    everybody = {one.name: frozenset({"web", "post", *AGENTS}) - {one.name} for one in LISTENERS}
    p = desk(trust_recalls(recall), **{name: agent(name) for name in AGENTS})
    peers = {name: replace(one, peers=everybody[name]) for name, one in p.rules.blueprint.listeners.items()}
    p.rules = replace(p.rules, blueprint=replace(p.rules.blueprint, listeners=peers))
    return p, waiting


@settings(max_examples=examples(40))
@given(TELLS, st.sampled_from([Recall.THREAD, Recall.LISTENER]))
def test_exposure_grows_with_each_message_is_stored_and_follows_messages(tells, recall):
    """For code with memory per listener, reach is the closure of messages sent after reads."""
    p, waiting = chatter(tells, recall)
    expected: set[str] = set()
    before = memory_of(p)
    for name, to in tells:
        told = {"flag": None, "web": name}.get(to, AGENTS[(AGENTS.index(name) + 1) % 3] if to == name else to)
        p.say(Ask("go on"), name)
        p.run()
        if to == "web" or (name in expected and told):
            expected.add(told)
        now = memory_of(p)
        assert dict(before.first).items() <= dict(now.first).items()
        before = now
    assert waiting == []
    if recall is Recall.LISTENER:
        assert {key.removeprefix("listener ") for key in before.first} - {"web"} == expected
    assert restore(take(p.conversation, p.rules.guards), p.rules.guards) == p.conversation


def memory_of(p):
    return p.conversation.memory["lineage"].exposure if p.conversation.version else Exposure()
