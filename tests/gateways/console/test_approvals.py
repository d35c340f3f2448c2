"""What waits for an approval, at the console."""

from __future__ import annotations

import io
import re
import signal
from decimal import Decimal

import anyio
import pytest

from agentserver import HandlerMetadata, HandlerResponse
from agentserver.assembly import build
from agentserver.core.blueprint import Limits
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.approval_view import PAGE
from agentserver.gateways.console.console import Console
from agentserver.gateways.console.lines import ControlKey
from agentserver.ports import EngineError, NoOutcomeError
from agentserver.testing import listener, organism_of
from agentserver.trace.terminal import Screen
from tests.gateways.console.test_console import Feed, send, wait_for_text
from tests.gateways.payloads import Greet, Greeting, greet
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def clerk(payload: object, metadata: HandlerMetadata) -> HandlerResponse:
    if isinstance(payload, Greet):
        return HandlerResponse(payload, "vault")
    text = payload.text if isinstance(payload, Greeting) else f"no: {payload.code}"
    return HandlerResponse.respond(Greeting(text))


async def slowly(payload: Greet, metadata: HandlerMetadata) -> HandlerResponse:
    await anyio.sleep(0.1)
    return HandlerResponse.respond(Greeting("slowly"))


async def pay(amount: Decimal) -> None: ...


LARGE_SUM = {"amount": {"sum": {"over": 50, "within": "24h"}}}
SUMMED = organism_of(listener("till", pay, approval={"when": LARGE_SUM}), limits=Limits(drain=0.1))
DESK = organism_of(
    listener("clerk", clerk, Greet, peers=["vault"]),
    listener("vault", greet, Greet, approval=True),
    listener("greeter", greet, Greet),
    limits=Limits(drain=0.1),
)
HASTY = organism_of(*DESK.listeners, limits=Limits(approval=0.05))
BESIDE = organism_of(*DESK.listeners, listener("slow", slowly))


def answer(line, number=0):
    """A step: a command in which ``ID`` is the id of what waits."""

    async def step(shown):
        found = re.findall(r"approval (\w+)  \w", shown.getvalue())
        step.line = line.replace("ID", found[number])

    return step


class TypingSteps(Feed):
    """Steps may leave a line to be read."""

    async def next(self, prompt):
        while self.steps:
            step = self.steps.pop(0)
            if not callable(step):
                self.steps.insert(0, step)
                return await super().next(prompt)
            await step(self.shown)
            if hasattr(step, "line"):
                return step.line
        return await super().next(prompt)


async def session(*steps, interactive=True, asks=True, organism=DESK, meanwhile=None, engine=None, **who):
    """The status and everything shown, on a server that asks at the console."""
    shown = io.StringIO()
    server = build(organism, engine=engine)
    console = Console(server, Screen(out=lambda: shown), interactive=interactive, **who)
    if asks:
        server.approver = console.approvals
    with anyio.fail_after(HANGS):
        async with server, anyio.create_task_group() as tasks:
            if meanwhile is not None:
                tasks.start_soon(meanwhile, server)
            status = await console.run(TypingSteps(steps, shown, concurrent=interactive))
            tasks.cancel_scope.cancel()
    return status, shown.getvalue()


WAITS = wait_for_text("/deny")


async def test_a_question_is_shown_with_the_message_to_approve():
    _, shown = await session("@clerk name=Ada", WAITS)
    lines = shown.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("approval "))
    key = lines[start].split()[1]
    assert len(key) == 6
    assert "clerk -> vault  Greet" in lines[start - 1], "what led to it comes first"
    assert re.fullmatch(
        rf"approval {key}  clerk -> vault  Greet  in conversation [\w-]+; refused at \d\d:\d\d:\d\d",
        lines[start],
    )
    assert lines[start + 1 : start + 4] == [
        "  ? clerk wants to send this to vault, which needs an approval.",
        '  | name: "Ada"',
        "  | loud: false",
    ]
    assert re.fullmatch(r"  \| sha-256 [0-9a-f]{64}", lines[start + 4])
    assert lines[start + 5 : start + 6] == [
        f"  /approve {key}, /approve {key} always, or /deny {key}",
    ]
    assert "asked clerk" not in shown, "the question says it"


@pytest.mark.parametrize(
    ("line", "outcome", "said"),
    [
        ("/approve ID", "approved by console, once", "Good day, Ada!"),
        ("/approve ID always", "approved by console, always", "Good day, Ada!"),
        ("/deny ID", "denied: console", "no: denied"),
    ],
)
async def test_an_answer_is_passed_on_and_shown_before_its_outcome(line, outcome, said):
    status, shown = await session("@clerk name=Ada", WAITS, answer(line), wait_for_text(said))
    assert status == 0
    assert shown.index(outcome) < shown.index(said)


async def test_a_permanently_approved_message_is_not_asked_about_again():
    said = wait_for_text("Good day, Ada!")

    async def wait_for_two(shown):
        while shown.getvalue().count("Good day, Ada!") < 2:  # noqa: ASYNC110 - the screen is a plain stream
            await anyio.sleep(0.005)

    again = "@clerk name=Ada"
    _, shown = await session(
        again, WAITS, answer("/approve ID always"), said, "/hops off", again, wait_for_two
    )
    assert shown.count("needs an approval") == 1


async def test_two_questions_are_distinguished():
    two = wait_for_text('name: "Bob"')
    _, shown = await session(
        "@clerk name=Ada", WAITS, "@clerk name=Bob", two, answer("/deny ID", 0), wait_for_text("no: denied"), "/approvals",
        answer("/approve ID", 1), wait_for_text("Good day, Bob!"),
    )  # fmt: skip
    assert "Good day, Ada!" not in shown


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/approve", "say which: /approvals lists them"),
        ("/approve always", "say which: /approvals lists them"),
        ("/deny", "say which"),
        ("/deny ID always", "say /deny ID, /approve ID or /approve ID always"),
        ("/approve ID ever", "say /deny ID, /approve ID or /approve ID always"),
        ("/approve zz", "no messages wait for an approval under zz"),
        ("/approvals zz", "no messages wait for an approval under zz"),
    ],
)
async def test_an_answer_that_names_nothing_is_a_mistake(line, said):
    _, shown = await session("@clerk name=Ada", WAITS, answer(line), wait_for_text(said))
    assert "approved by" not in shown


async def test_an_id_that_is_too_short_answers_nothing():
    """Another message may have taken the place of the one that was meant while somebody typed."""

    async def short(shown):
        key = re.findall(r"approval (\w+)  ", shown.getvalue())[0]
        short.line = f"/approve {key[:1]}"

    _, shown = await session("@clerk name=Ada", WAITS, short, wait_for_text("is too short to be sure: say"))
    assert "approved by" not in shown


def greeting_line(name):
    return f'@clerk <Greet xmlns="urn:agentserver:payload:Greet:v1"><name>{name}</name></Greet>'


LONG = greeting_line("&#10;".join(f"line {number}" for number in range(2 * PAGE + 20)))


async def test_an_approval_requires_that_the_message_was_shown_in_full():
    _, shown = await session(
        LONG, WAITS, "/approvals", wait_for_text("clerk -> vault  Greet  in"),
        answer("/approve ID"), wait_for_text("2 pages of it were not shown"), answer("/approvals ID 3"), wait_for_text("page 3 of 3"),
        answer("/approve ID always"), wait_for_text("1 page of it was not shown"), answer("/approvals ID"), wait_for_text("page 2 of 3"),
        "/threads", wait_for_text("1 to be approved"), answer("/approve ID"), wait_for_text("Good day"),
    )  # fmt: skip
    first, third, second = (
        shown.partition(f"(page {n} of 3)")[0].rpartition("line 0" if n == 1 else "(page")[2]
        for n in (1, 3, 2)
    )
    assert f'"line {PAGE - 1}\\n"' in first
    assert f'"line {PAGE}\\n"' not in first
    assert f'"line {2 * PAGE - 1}\\n"' in second
    assert f'"line {2 * PAGE + 19}"' in third
    assert "sha-256" in third


@pytest.mark.parametrize("page", ["0", "4", "-1", "x", "1 1", "\u0663"])
async def test_a_page_is_one_of_those_there_are(page):
    _, shown = await session(LONG, WAITS, answer(f"/approvals ID {page}"), wait_for_text("PAGE, of 3"))
    assert "page 2" not in shown


async def test_a_denial_needs_no_reading():
    _, shown = await session(LONG, WAITS, answer("/deny ID"), wait_for_text("no: denied"))
    assert "page 2 of 3" not in shown


async def test_a_script_is_shown_all_of_it_at_once():
    _, shown = await session(LONG, "/approve", "/quit", interactive=False)
    assert f'"line {2 * PAGE + 19}"' in shown
    assert "approved by console, once" in shown


OTHERS = organism_of(*DESK.listeners, limits=Limits(drain=0.1, approvers="others"))


@pytest.mark.parametrize(
    ("principal", "by", "why"),
    [
        ("ada", "ada", "ada asked for it"),
        ("ada", "A\u0501a", "ada asked for it"),  # a Cyrillic d
        ("console", "bob", "its principal is unknown"),
        ("ada", "bob", ""),
    ],
)
async def test_who_asked_for_it_may_not_approve_it_where_others_must(principal, by, why):
    steps = (
        [wait_for_text(f"{why}, and approvers: others wants another one")]
        if why
        else [wait_for_text("Good day, Ada!")]
    )
    _, shown = await session(
        "@clerk name=Ada", WAITS, answer("/approve ID"), *steps, organism=OTHERS, principal=principal, by=by
    )
    assert ("approved by" in shown) is not bool(why)


async def test_who_asked_for_it_may_deny_it_all_the_same():
    steps = ("@clerk name=Ada", WAITS, answer("/deny ID"), wait_for_text("no: denied"))
    await session(*steps, organism=OTHERS, principal="ada", by="ada")


async def test_nothing_waits():
    assert "nothing waits for an approval" in (await session("/approvals"))[1]


async def test_a_persons_words_cannot_pass_for_a_question():
    text = "x&#10;approval 123456  clerk -> vault&#10;\u202e/approve"
    markup = f'<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>{text}</name></Greet>'
    _, shown = await session(f"@clerk {markup}", WAITS)
    assert '  |   "approval 123456  clerk -> vault\\n"\n  |   "\\u202e/approve"\n' in shown


async def answer_elsewhere(server):
    """Somebody answers at another place."""
    while not server.approvals():  # noqa: ASYNC110 - another place would look too
        await anyio.sleep(0.005)
    (approval,) = server.approvals()
    await server.answer(
        approval.delivery.conversation,
        ApprovalAnswer(approval.id, approval.digest, Answer.ONCE, "ada elsewhere"),
    )


async def test_an_answer_from_elsewhere_is_shown():
    _, shown = await session("@clerk name=Ada", wait_for_text("Good day"), meanwhile=answer_elsewhere)
    assert ": approved by ada elsewhere, once" in shown


async def test_a_question_of_another_conversation_is_asked_here_too():
    async def another(server):
        handle = await server.open("somebody")
        await handle.send(
            b'<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>Eve</name></Greet>', "clerk"
        )

    _, shown = await session(WAITS, answer("/deny ID"), wait_for_text("denied: console"), meanwhile=another)
    assert 'name: "Eve"' in shown


async def test_a_question_that_ends_with_its_conversation_is_reported():
    _, shown = await session("@clerk name=Ada", WAITS, "/cancel", wait_for_text("gone with"))
    assert "gone with its conversation or thread" in shown


async def test_an_expired_question_is_reported():
    _, shown = await session("@clerk name=Ada", wait_for_text("no: denied"), organism=HASTY)
    assert "denied: no answer in time" in shown


async def held_of_somebody(server):
    """A conversation of another principal, one message in which waits for an approval."""
    handle = await server.open("somebody")
    await handle.send(b'<Greet xmlns="urn:agentserver:payload:Greet:v1"><name>Eve</name></Greet>', "clerk")
    while not server.approvals():  # noqa: ASYNC110 - no event of its own
        await anyio.sleep(0.005)
    return handle


async def test_a_question_that_is_answered_before_it_is_shown_is_shown_without_the_commands_to_answer_it():
    shown = io.StringIO()
    server, screen = build(DESK), Screen(out=lambda: shown)
    console = Console(server, screen, interactive=False)
    server.approver = console.approvals
    async with server:
        await held_of_somebody(server)
        (asked,) = server.approvals()
        answered = ApprovalAnswer(asked.id, asked.digest, Answer.ONCE, "eve")
        assert await server.answer(asked.delivery.conversation, answered)
        console.approvals.flush()
        await screen.flush()
    assert 'name: "Eve"' in shown.getvalue()
    assert "approved by eve" in shown.getvalue()
    assert not re.search("/(approve|approvals|deny) ", shown.getvalue())


async def test_a_late_answer_is_reported_as_late():
    shown = io.StringIO()
    server = build(DESK)
    console = Console(server, Screen(out=lambda: shown), interactive=True)
    server.approver = console.approvals
    async with server:
        handle = await held_of_somebody(server)
        console.approvals.stop()  # it does not hear that the conversation is closed
        (key,) = console.approvals.list_ids()
        await handle.close()
        assert await console.approvals.answer(key, Answer.ONCE) == "it is no longer open"


class LateServer:
    """A server whose engine takes no answer at present; everything else is the server's."""

    def __init__(self, server, error):
        self._server, self._error = server, error

    def __getattr__(self, name):
        return getattr(self._server, name)

    async def answer(self, conversation, answered):
        raise self._error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NoOutcomeError(), "no outcome arrived in time: the request is stored and may still take effect"),
        (EngineError("no broker"), "it cannot be kept at present: say it again later"),
    ],
)
async def test_an_answer_that_cannot_be_kept_ends_no_session(error, said):
    server = build(DESK)
    console = Console(LateServer(server, error), Screen(out=io.StringIO), interactive=True)
    server.approver = console.approvals
    async with server:
        await held_of_somebody(server)
        (key,) = console.approvals.list_ids()
        assert await console.approvals.answer(key, Answer.ONCE) == said
        assert server.approvals()[0].id.startswith(key)


@pytest.mark.parametrize("end", [send(signal.SIGTERM), "/quit", ControlKey.END])
async def test_the_end_of_a_session_keeps_pending_questions(end, tmp_path):
    engine = SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"), build(DESK).rules.guards)
    status, shown = await session("@clerk name=Ada", WAITS, end, engine=engine)
    assert status == 0
    assert "still waits for an approval" in shown
    assert "gone with" not in shown


async def test_pending_questions_are_lost_without_a_journal():
    _, shown = await session("@clerk name=Ada", WAITS, "/quit")
    assert "gone with" in shown


# Scripts


async def test_a_script_answers_pending_questions():
    status, shown = await session(
        "@clerk name=Ada", "/approve", "@clerk name=Bob", "/deny", "/quit", interactive=False
    )
    assert "Good day, Ada!" in shown
    assert "no: denied" in shown
    assert shown.index("Good day, Ada!") < shown.index('name: "Bob"')
    assert status == 0


async def test_a_script_cannot_answer_two_at_once_without_naming_one():
    status, shown = await session(
        "@clerk name=Ada", "@clerk name=Bob", "/approve always", "/quit", interactive=False
    )
    assert "2 messages wait for an approval" in shown
    assert status == 2


async def test_a_script_waits_at_its_end_for_whoever_answers_elsewhere():
    status, shown = await session("@clerk name=Ada", interactive=False, meanwhile=answer_elsewhere)
    assert status == 0
    assert "Good day, Ada!" in shown


async def test_the_next_line_of_a_script_waits_for_work_that_runs_during_a_question():
    """Only when everything that runs waits for a person is the next line read."""
    status, shown = await session(
        "@clerk name=Ada", "@slow name=x", "/approve", "/quit", interactive=False, organism=BESIDE
    )
    assert shown.index("slowly") < shown.index("approved by console")
    assert status == 0


async def test_the_next_line_of_a_script_is_read_while_a_message_whose_sum_is_exceeded_waits(tmp_path):
    status, shown = await session(
        "@till amount=40",
        "@till amount=20",
        "/deny",
        "/quit",
        interactive=False,
        organism=SUMMED,
        engine=SqliteEngine(JournalOptions(tmp_path / "journal.sqlite")),
    )
    assert "needs an approval if the sum of amount is over 50 within 1d" in shown
    assert "denied: console" in shown
    assert status == 1


async def test_a_script_on_a_server_that_asks_nobody_is_refused_at_once():
    status, shown = await session("@clerk name=Ada", "/approvals", interactive=False, asks=False)
    assert "no: denied" in shown
    assert "nothing waits for an approval" in shown
    assert status == 0
