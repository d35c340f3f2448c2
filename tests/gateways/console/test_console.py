"""Sessions on a real server, fed with lines."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import anyio
import pytest

from agentserver import HandlerMetadata, HandlerResponse, invocation
from agentserver.assembly import build
from agentserver.core.blueprint import Limits
from agentserver.core.messages import Delta, DeltaKind
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.engines.conformance.sample import at_work
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.console import console as console_module
from agentserver.gateways.console.console import Console, HopView
from agentserver.gateways.console.lines import ControlKey, Ids
from agentserver.gateways.console.session import ConsoleSession, ConsoleSessions
from agentserver.testing import FakeClock, listener, organism_of
from agentserver.trace.store import CONVERSATIONS
from agentserver.trace.terminal import Screen
from tests.gateways.payloads import DESK, Greet, Greeting, Wait, greet, relay, wait
from tests.machine import HANGS
from tests.pump.desk import FullEngine

pytestmark = pytest.mark.anyio


IDLE = organism_of(listener("greeter", greet, Greet), limits=Limits(idle=0.25))
CROWDED = organism_of(listener("waiter", wait, Wait), limits=Limits(principal_conversations=1, drain=0.05))
HASTY = replace(DESK, limits=Limits(drain=0.05))


LATER = 1.0
"""Seconds after which a conversation of IDLE expires, by a clock of the test's."""


async def tell(payload: Greet, metadata: HandlerMetadata) -> HandlerResponse:
    invocation().progress("half\n/quit \x1b[31mway")
    await anyio.sleep(0.05)
    return HandlerResponse.respond(payload)


TELLING = organism_of(listener("worker", tell, progress=True))
NAMESAKE = organism_of(listener("console", greet, Greet))


class Feed:
    """Lines, keys, and functions to call between them. Strings that stand in ``until`` are waited for on the screen."""

    def __init__(self, steps, shown, *, concurrent=False):
        self.concurrent = concurrent
        self.steps = list(steps)
        self.shown = shown
        self.prompts = []
        self.typed = False
        self.settled = None

    async def next(self, prompt):
        self.prompts.append(prompt)
        while self.steps:
            step = self.steps.pop(0)
            if isinstance(step, str | ControlKey):
                return step
            await step(self.shown)
        return ControlKey.END

    def clear(self, prompt):
        self.prompts.append(prompt)
        typed, self.typed = self.typed, False
        return typed


def wait_for_text(text):
    """A step: wait until the screen shows a text."""

    async def step(shown):
        while text not in shown.getvalue():  # noqa: ASYNC110 - the screen is a plain stream
            await anyio.sleep(0.005)

    return step


def send(number, pause=None):
    """A step: a signal, and time for its effect; without a pause it ends the session."""

    async def step(shown):
        os.kill(os.getpid(), number)
        await (anyio.sleep_forever() if pause is None else anyio.sleep(pause))

    return step


async def hold_waiter(gate):
    """The desk, whose waiter answers once the gate is open."""

    async def wait(payload: Wait, metadata: HandlerMetadata) -> HandlerResponse:
        await gate.wait()
        return HandlerResponse.respond(Greeting("waited"))

    listeners = (
        listener("greeter", greet, Greet),
        listener("waiter", wait, Wait),
        listener("relay", relay, Wait, peers=["waiter"]),
    )
    return await anyio.to_thread.run_sync(lambda: organism_of(*listeners))  # it looks where it is


def opens(gate):
    """A step: open a gate."""

    async def step(shown):
        gate.set()

    return step


async def session(
    *steps, interactive=False, organism=None, redact=str, engine=None, meanwhile=None, feeds=None, clock=None
):
    """The status and everything shown."""
    shown = io.StringIO()
    feed = Feed(steps, shown, concurrent=interactive)
    if feeds is not None:
        feeds.append(feed)
    with anyio.fail_after(HANGS):
        async with build(organism or DESK, engine=engine, clock=clock) as server:
            screen = Screen(redact=redact, out=lambda: shown)
            console = Console(server, screen, interactive=interactive)
            feed.settled = console._sessions.rest
            async with anyio.create_task_group() as tasks:
                if meanwhile is not None:
                    tasks.start_soon(meanwhile, shown)
                status = await console.run(feed)
                tasks.cancel_scope.cancel()
    return status, shown.getvalue(), feed.prompts


async def test_a_script_that_is_answered_exits_0():
    status, shown, prompts = await session("@greeter Ada", "Bob", "", "/quit", "never read")
    assert status == 0
    assert "console -> greeter  Greet" in shown
    assert "  | text: Good day, Ada!" in shown
    assert shown.index("Good day, Ada!") < shown.index("Good day, Bob!")
    assert "never" not in shown
    assert prompts == ["greeter> "] * 4


async def test_progress_is_shown_as_data_of_its_listener_while_hops_are():
    _, shown, _ = await session("@worker/Greet name=x", organism=TELLING)
    assert "worker ... half /quit \\x1b[31mway\n" in shown
    _, shown, _ = await session("/hops off", "@worker/Greet name=x", organism=TELLING)
    assert "half" not in shown


async def test_the_first_listener_is_addressed_until_another_is():
    _, shown, prompts = await session("x", "@both", "y", "@shop who=z")
    assert prompts == ["greeter> ", "greeter> ", "both> ", "both> ", "shop> "]
    assert "console -> both  Greet" in shown


@pytest.mark.parametrize(
    "line", ["@crash/Ping", "@silent/Ping", '<Ping xmlns="urn:agentserver:payload:Ping:v1"/>', "<a></b>"]
)
async def test_a_script_with_a_refusal_or_silence_exits_1(line):
    assert (await session(line, "@greeter Ada"))[0] == 1


async def test_a_script_with_an_invalid_line_exits_2_and_continues():
    status, shown, _ = await session("@nobody x", "@crash/Ping", "@greeter Ada")
    assert status == 2
    assert "no listener 'nobody'" in shown
    assert "Good day, Ada!" in shown


async def test_operators_see_the_detail_of_a_refusal_made_harmless():
    _, shown, _ = await session("@stray/Ping")
    assert "refused stray -> " in shown
    assert "nobody  routing: " in shown
    assert "\x1b" not in shown


async def test_secrets_do_not_reach_the_screen():
    _, shown, _ = await session(
        "@crash/Ping", "/trace", redact=lambda text: text.replace("hunter2", "[redacted]")
    )
    assert "failed console -> crash" in shown
    assert "hunter2" not in shown
    assert shown.count("[redacted]") == 2
    assert "\x9b" not in shown


async def test_a_message_cannot_imitate_the_consoles_output():
    status, shown, _ = await session("@sly/Ping")
    assert status == 0
    assert "  | text: fine\n  |   /quit\\x9b31m \\u202egnp\n" in shown


async def test_raw_markup_over_several_lines():
    status, shown, prompts = await session(
        '<Greet xmlns="urn:agentserver:payload:Greet:v1">', "<name>A</name>", "</Greet>"
    )
    assert "several" not in shown
    assert prompts == ["greeter> ", "... ", "... ", "greeter> "]
    # Two listeners take a Greet, so the root alone does not say which.
    assert status == 1
    envelope = '<message xmlns="urn:agentserver:envelope:v1"><from>me</from><to>both</to>'
    status, shown, _ = await session(
        f'{envelope}<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>A</name></Greet></message>'
    )
    assert status == 0
    assert "console -> both  Greet" in shown


async def test_markup_that_never_ends_is_a_mistake():
    status, shown, _ = await session("<a>")
    assert status == 2
    assert "not complete; it was not sent" in shown


async def test_a_line_that_is_too_long_ends_the_script():
    status, shown, _ = await session(ControlKey.TOO_LONG, "@greeter Ada")
    assert status == 2
    assert "Ada" not in shown


async def test_commands_print_their_documented_output():
    status, shown, _ = await session(
        "/help", "/listeners", "@greeter Ada", "/threads", "/trace", "/raw on", "@greeter Bob"
    )
    assert status == 0
    assert "/cancel [ID]" in shown
    assert "@greeter  Greets." in shown
    assert "  greeter  dormant" in shown
    assert " at " in shown
    assert '  | <message xmlns="urn:agentserver:envelope:v1">' in shown


async def test_hops_can_be_turned_off_and_on():
    _, shown, _ = await session("/hops off", "@greeter Ada", "/hops on", "@greeter Bob")
    assert shown.count("console -> greeter") == 1


async def test_new_begins_another_conversation():
    status, shown, _ = await session("@greeter Ada", "/new", "/trace", "/trace zzz")
    assert "0 records" in shown
    assert status == 2
    assert "no conversations of this session begin with zzz" in shown


async def test_an_id_may_be_shortened_as_long_as_it_is_one(fresh_server):
    shown = io.StringIO()
    console = Console(fresh_server, Screen(out=lambda: shown), interactive=False)

    class KnowingFeed(Feed):
        async def next(self, prompt):
            line = await super().next(prompt)
            return line.format(first=console.ids().conversations[0][:6]) if isinstance(line, str) else line

    assert (
        await console.run(KnowingFeed(["@greeter Ada", "/new", "/trace {first}", "/cancel {first}"], shown))
        == 0
    )
    assert "console -> greeter  Greet" in shown.getvalue().split("records")[1]


@pytest.fixture
async def fresh_server():
    async with build(DESK) as server:
        yield server


async def test_old_conversations_are_forgotten(fresh_server):
    console = Console(fresh_server, Screen(out=io.StringIO), interactive=False)
    await console.run(Feed(["@greeter Ada", "/new"] * (CONVERSATIONS + 20), io.StringIO()))
    assert len(console.ids().conversations) <= CONVERSATIONS + 2


async def test_a_server_that_stops_is_no_crash(fresh_server):
    class StoppingFeed:
        id, over = "c", False

        async def replies(self, data, to=None):
            raise RuntimeError("the server is stopping")
            yield

        async def progress(self):
            return
            yield

        async def close(self):
            pass

    class Host:
        rules, trace, stream = fresh_server.rules, fresh_server.trace, fresh_server.stream
        durable = False

        async def open(self, principal, **_):
            return StoppingFeed()

        async def drain(self):
            pass

        async def watch(self, principal, conversation, after, *, deltas):
            return
            yield

        def conversation(self, conversation):
            return SimpleNamespace(requests={})

    shown = io.StringIO()
    console = Console(Host(), Screen(out=lambda: shown), interactive=False)
    assert await console.run(Feed(["@greeter Ada"], shown)) == 1
    assert "the server is stopping" in shown.getvalue()


async def test_the_pump_does_not_wait_for_the_screen(monkeypatch):
    monkeypatch.setattr(console_module, "WAITING", 2)
    shown = io.StringIO()
    screen = Screen(out=lambda: shown)
    talks = ConsoleSessions(None, "console")
    talks._known["c"] = ConsoleSession(None)
    view = HopView(talks, screen)
    for conversation in "cdccc":
        view.note(AuditRecord(Event.SENT, 1.0, conversation, "t", "a", "b"))
    view.flush()
    await screen.flush()
    assert shown.getvalue().splitlines() == ["2 hops not shown", "   +0.000s  a -> b", "   +0.000s  a -> b"]


async def test_a_conversation_that_was_cancelled_is_replaced():
    status, shown, _ = await session("@greeter Ada", "/cancel", "@greeter Bob", "/threads")
    assert status == 0
    assert " is over" in shown
    assert "the conversation was closed" not in shown
    assert "Good day, Bob!" in shown


async def test_a_conversation_that_idled_away_is_replaced_with_a_word():
    clock, engine = FakeClock(step=0.0), MemoryEngine()

    async def idle(shown):
        clock.advance(LATER)
        while engine._conversations:  # noqa: ASYNC110 - a sweep has no event
            await anyio.sleep(0.005)

    steps = ("Ada", wait_for_text("Good day, Ada!"), idle, "Bob")
    status, shown, _ = await session(*steps, organism=IDLE, engine=engine, clock=clock)
    assert status == 0
    assert "the conversation was closed; this is a new one" in shown


async def test_a_person_need_not_wait():
    gate = anyio.Event()
    status, shown, _ = await session(
        "@waiter seconds=0", wait_for_text("console -> waiter"), "@greeter Ada", wait_for_text("Good day, Ada!"), opens(gate), wait_for_text("waited"),
        interactive=True, organism=await hold_waiter(gate),
    )  # fmt: skip
    assert status == 0
    assert shown.index("Good day, Ada!") < shown.index("waited")


async def test_running_work_of_a_conversation_that_was_left_is_still_shown():
    gate = anyio.Event()
    steps = (
        "@relay seconds=0",
        wait_for_text("waiter"),
        "/new",
        opens(gate),
        wait_for_text("in conversation"),
    )
    _, shown, _ = await session(*steps, interactive=True, organism=await hold_waiter(gate))
    assert "  | text: waited" in shown


async def test_a_persons_mistakes_do_not_change_the_status():
    assert (await session("@nobody", "@crash/Ping", wait_for_text("internal"), interactive=True))[0] == 0


async def test_ctrl_c_cancels_running_work_and_leaves_when_idle():
    status, shown, _ = await session(
        "@waiter seconds=60", wait_for_text("console -> waiter"), ControlKey.INTERRUPT, wait_for_text("cancelled"), ControlKey.INTERRUPT, "@greeter Ada",
        interactive=True,
    )  # fmt: skip
    assert status == 0
    assert "Ada" not in shown


async def test_ctrl_c_forgets_half_an_element():
    _, shown, prompts = await session(
        "<a>", ControlKey.INTERRUPT, "Ada", wait_for_text("Good day"), interactive=True
    )
    assert prompts[:3] == ["greeter> ", "... ", "greeter> "]
    assert "not complete" not in shown


ENDS = pytest.mark.parametrize(
    ("interactive", "status", "end"),
    [
        (True, 0, "/quit"),
        (True, 0, ControlKey.END),
        (True, 0, signal.SIGTERM),
        (False, 0, signal.SIGTERM),
        (False, 130, signal.SIGINT),
    ],
)


async def end_session(end, *, interactive, engine=None):
    """The status and the screen of a session that ends while something runs."""
    runs = wait_for_text("console -> waiter")

    async def meanwhile(shown):
        await runs(shown)
        os.kill(os.getpid(), end)

    comes = isinstance(end, signal.Signals)  # from beside: a script reads no line while something runs
    steps = ["@waiter seconds=60", *([wait_for_text("never")] if comes else [runs, end])]
    beside = meanwhile if comes else None
    status, shown, _ = await session(
        *steps, interactive=interactive, organism=HASTY, engine=engine, meanwhile=beside
    )
    return status, shown


@ENDS
async def test_however_a_session_ends_unfinished_work_is_stored(interactive, status, end, tmp_path):
    guards = build(DESK).rules.guards
    engine = SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), guards)
    found, shown = await end_session(end, interactive=interactive, engine=engine)
    assert found == status
    assert "unfinished: it continues with the next start" in shown
    async with SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), guards) as engine:
        (kept,) = await at_work(engine)
        assert len((await engine.load(kept)).requests) == 1


@ENDS
async def test_unfinished_work_without_a_journal_is_cancelled(interactive, status, end):
    found, shown = await end_session(end, interactive=interactive)
    assert found == status
    assert "cancelled" in shown


@pytest.mark.parametrize("end", ["/quit", send(signal.SIGTERM)])
async def test_an_unwritable_journal_blocks_no_session(end):
    engine = FullEngine()

    async def fill(shown):
        engine.full = True

    status, _, _ = await session(
        "@greeter Ada", wait_for_text("Good day"), fill, end, interactive=True, organism=HASTY, engine=engine
    )
    assert status == 0


async def test_finished_work_is_not_stored(tmp_path):
    guards = build(DESK).rules.guards
    engine = SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), guards)
    status, shown, _ = await session("@greeter Ada", "/new", "@greeter Bob", "/quit", engine=engine)
    assert (status, "kept" in shown) == (0, False)
    async with SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), guards) as engine:
        assert [key async for key in engine.conversations_of("console")] == []


async def test_a_signal_is_ctrl_c_where_no_prompt_reads_keys():
    status, shown, _ = await session(
        "@waiter seconds=60",
        wait_for_text("console -> waiter"),
        send(signal.SIGINT, 0),
        wait_for_text("cancelled"),
        send(signal.SIGINT, 0),
        wait_for_text("Ctrl-C again leaves"),
        send(signal.SIGINT),
        interactive=True,
    )
    assert status == 0
    assert "cancelled" in shown


async def test_ctrl_c_forgets_a_half_typed_line_before_it_cancels_or_leaves():
    async def half(feed_shown):
        feeds[0].typed = True
        os.kill(os.getpid(), signal.SIGINT)
        while feeds[0].typed:  # noqa: ASYNC110 - a line that is cleared has no event
            await anyio.sleep(0.005)

    async def wait_until_idle(shown):
        """Wait until nothing runs: an answer is shown a moment before, and Ctrl-C would cancel its request."""
        await feeds[0].settled.wait()

    feeds = []
    status, shown, prompts = await session(
        "@waiter seconds=60",
        wait_for_text("console -> waiter"),
        half,
        ControlKey.INTERRUPT,  # now it cancels
        wait_for_text("cancelled"),
        "<half>",
        ControlKey.INTERRUPT,
        "@greeter Ada",
        wait_for_text("Good day, Ada!"),
        wait_until_idle,
        ControlKey.INTERRUPT,
        "@greeter Bob",  # no second one in a row
        wait_for_text("Good day, Bob!"),
        wait_until_idle,
        ControlKey.INTERRUPT,
        ControlKey.INTERRUPT,
        "@greeter never",
        interactive=True,
        feeds=feeds,
    )
    assert status == 0
    assert "half" not in shown
    assert "never" not in shown
    assert shown.count("Ctrl-C again leaves") == 2
    assert prompts[-1] == "greeter> "


UNFINISHED = '<Greet xmlns="urn:agentserver:payload:Greet:v1">'


@pytest.mark.parametrize("more", [[], ["<name>Ada"], ["</other>"], ["", "text"]])
async def test_an_unfinished_element_of_a_script_swallows_one_message(more):
    _, shown, _ = await session(UNFINISHED, *more, "@greeter Bob", "@greeter Cy", "/threads")
    assert "Good day, Bob!" in shown
    assert "Good day, Cy!" in shown
    assert "messages so far" in shown
    assert ("it was not sent" in shown) is (more != ["</other>"])


async def test_lines_inside_of_an_element_are_its_own():
    lines = ['<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>', "@greeter Bob", "</name></Greet>"]
    _, shown, _ = await session(*lines)
    assert shown.count("console -> greeter") + shown.count("console -> both") <= 1
    assert "Good day, Bob!" not in shown


async def test_sigterm_lets_running_work_finish():
    status, shown, _ = await session(
        "@waiter seconds=0.3",
        wait_for_text("console -> waiter"),
        send(signal.SIGTERM),
        "@greeter Ada",
        interactive=True,
    )
    assert status == 0
    assert "waited" in shown
    assert "Ada" not in shown


async def test_a_reader_that_went_away_ends_the_session():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        async with build(DESK) as server:
            console = Console(server, Screen(out=lambda: stream), interactive=False)
            assert await console.run(Feed(["@greeter Ada", "@greeter Bob"], io.StringIO())) == 2


async def test_a_listener_may_not_have_the_principals_name():
    async with build(NAMESAKE) as server:
        with pytest.raises(ValueError, match="'console'"):
            await Console(server, Screen(out=io.StringIO), interactive=False).run(Feed([], io.StringIO()))


def test_the_greeting_says_where_text_goes():
    console = Console(build(DESK), Screen(), interactive=True)
    assert console.greet("desk") == (
        "desk: 9 listeners. Text goes to @greeter until you address another. /help lists what can be typed."
    )
    assert next(iter(console.takers)) == "greeter"
    assert console.ids() == Ids([], [])


async def test_a_principal_with_too_many_conversations_learns_it_and_keeps_its_own():
    sent, told = wait_for_text("console -> waiter"), wait_for_text("limits.principal_conversations")
    _, shown, _ = await session(
        "seconds=1000", sent, "/new", told, "/threads", "/quit", interactive=True, organism=CROWDED
    )
    assert "1 message so far" in shown.partition("limits.principal_conversations")[2]


async def test_the_text_of_an_answer_is_shown_by_lines_before_the_answer(fresh_server):
    out = io.StringIO()
    screen = Screen(out=lambda: out)
    hops = HopView(ConsoleSessions(fresh_server, "console"), screen)

    async def pieces():
        for kind, words, offset in [
            (DeltaKind.TEXT, "one\ntw", 0), (DeltaKind.TEXT, "o\x1b\n" + "x" * 150, 6), (DeltaKind.RESET, "", 0),
            (DeltaKind.TEXT, "again\n", 0),
        ]:  # fmt: skip
            yield Delta("c", "r", "agent", kind, words, offset)

    await hops.follow_answers(pieces())
    await screen.flush()
    told = out.getvalue().splitlines()
    assert told == [
        "agent | one", "agent | two\\x1b", "agent | " + "x" * 100, "the text above does not count", "agent | again",
    ]  # fmt: skip
