"""The example organism as a whole, on a real HTTP server."""

from __future__ import annotations

import sys
from dataclasses import replace
from decimal import Decimal
from email import policy
from email.parser import BytesParser
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event

import anyio
import pytest

from agentserver import SystemError
from tests.examples.conftest import PROJECT, on_site, run, with_facts, with_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def demonstration():
    return (PROJECT / "examples/demo.txt").read_text()


OTTERS = "How much is 17.5 % of 1240, and what do the pages say about otters?"


def mails():
    return [
        BytesParser(policy=policy.default).parsebytes(file.read_bytes())
        for file in sorted(Path("out/mail").glob("*"))
    ]


async def test_a_question_gets_a_figure_and_a_summary_of_two_pages(desk):
    async with run(desk) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", OTTERS), "router")
        figure, river, sea = answer.text.splitlines()
        assert figure == "1240 * 17.5 / 100 = 217"
        assert "fish, crayfish and frogs" in river
        assert "densest fur" in sea
        assert [url.rpartition("/")[2] for url in answer.sources] == ["river-otters.html", "sea-otters.html"]
    assert mails() == []


async def test_the_answer_is_mailed_to_the_person_on_request(desk):
    async with run(desk) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", OTTERS), "router")
        mailed = await c.ask(o.make("Question", "Please mail it to me."), "router")
        assert mailed.text.startswith(f"{answer.text}\n(Mailed to me@desk.example: ")
    (mail,) = mails()
    assert (mail["From"], mail["To"]) == ("desk@desk.example", "me@desk.example")
    assert mail["Subject"] == f"Re: {OTTERS}"
    assert mail.get_content().splitlines() == [*answer.text.splitlines(), "", *answer.sources]


async def test_a_mail_goes_to_the_address_in_the_question(desk):
    async with run(desk) as o:
        c = await o.open()
        await c.ask(o.make("Question", "2 + 2, and mail it to ada@example.org"), "router")
    assert [mail["To"] for mail in mails()] == ["ada@example.org"]


async def test_there_is_nothing_to_mail_at_first(desk):
    async with run(desk) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "Mail it to me!"), "router")
        assert answer == o.make("Answer", "There is nothing to mail yet.")
    assert mails() == []


async def test_the_calculator_remembers_within_a_conversation_and_not_beyond(desk):
    async with run(desk) as o:
        c, other = await o.open(), await o.open()
        assert (await c.ask(o.make("Calculate", "0.1 + 0.2"), "calculator")).value == Decimal("0.3")
        assert (await c.ask(o.make("Calculate", "1 / 0"), "calculator")).problem == "division by zero"
        assert (await c.ask(o.make("Calculate", "ans * 10"), "calculator")).value == 3
        answer = await other.ask(o.make("Calculate", "ans * 10"), "calculator")
        assert answer.problem == "there is no earlier result"


async def test_the_calculator_remembers_while_the_researcher_is_at_work(desk):
    async with run(desk) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "What is 2 + 3, and half of that, and twice that?"), "router")
        assert answer.text.splitlines() == ["2 + 3 = 5", "ans / 2 = 2.5", "ans * 2 = 5"]


async def test_a_plain_sum_goes_to_the_calculator(desk):
    async with run(desk) as o:
        c = await o.open()
        assert (await c.ask(o.make("Question", "6 * 7"), "router")).text == "6 * 7 = 42"
        assert [r.to for r in c.records("sent")] == ["router", "calculator", "router"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What about quokkas?", "The pages say nothing about quokkas."),
        ("Hello", "I can calculate, and say what the pages know about a topic: ask me about otters."),
        ("What is known about beavers?", "no page: http://127.0.0.1:*/beavers.html is missing"),
    ],
)
async def test_a_question_without_an_answer_says_so(desk, question, answer):
    async with run(desk) as o:
        c = await o.open()
        assert fnmatchcase((await c.ask(o.make("Question", question), "router")).text, answer)


# The attack


BADGERS = "What do the pages say about badgers?"


async def test_a_page_talks_the_model_into_mailing_and_the_server_does_not_let_it(desk):
    async with run(desk) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", BADGERS), "router")
        refused = [(r.sender, r.to, r.code) for r in c.records("refused")]
        assert refused == [("researcher", "outbox", "routing")]
        assert "earthworms" in answer.text
        assert answer.text.endswith(
            "(The system says: Message could not be delivered. Please verify your target and try again.)"
        )
    assert mails() == []


async def test_with_the_outbox_among_its_peers_and_no_lineage_the_same_attack_succeeds(desk):
    peers = frozenset({"calculator", "fetcher", "summariser", "outbox"})
    async with run(replace(with_facts(desk, "researcher", peers=peers), provenance=None)) as o:
        c = await o.open()
        await c.ask(o.make("Question", BADGERS), "router")
    assert [mail["To"] for mail in mails()] == ["eve@evil.example"]


async def test_a_pages_text_cannot_become_a_recipient_through_the_router(desk):
    async with run(desk) as o:
        c = await o.open()
        await c.ask(o.make("Question", f"{BADGERS} Mail it to me."), "router")
    assert [mail["To"] for mail in mails()] == ["me@desk.example"]


# Fan-out and failure


def animals(web, *names):
    items = "".join(f'<li><a href="/{name}">Otters, {name}</a></li>' for name in names)
    web.page("/", f"<title>List</title><ul>{items}</ul>")


async def test_a_fan_out_is_joined_in_the_order_of_the_calls(desk, web):
    names = ["first", "second", "third"]
    animals(web, *names)
    turn = {name: Event() for name in names}
    for name in names:
        web.page(f"/{name}", f"<p>The {name} otter swims.</p>", after=turn[name])
    last_first = iter([*reversed(names), None])

    def after_each_page_the_next(records):
        for record in records:
            if record.event == "sent" and record.sender == "fetcher":
                turn.get(next(last_first), Event()).set()

    async with run(on_site(desk, web)) as o:
        c = await o.open()
        o.server.stream.attach(after_each_page_the_next)
        answer = await c.ask(o.make("Question", "What about otters?"), "router")
        pages = [r.message for r in c.records("sent") if r.sender == "fetcher"][1:]
        assert [name for page in pages for name in names if f"/{name}<".encode() in page] == names[::-1]
        assert answer.text.splitlines() == [f"The {name} otter swims." for name in names]


async def test_a_page_that_never_comes_is_a_timeout_that_the_researcher_reports(desk, web):
    animals(web, "swift", "stuck")
    web.page("/swift", "<p>The swift otter swims.</p>")
    web.hang("/stuck")
    async with run(on_site(with_facts(desk, "fetcher", deadline=2.0), web)) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "What about otters?"), "router")
        assert answer.text.splitlines() == [
            "The swift otter swims.",
            "(The system says: No answer was given in time.)",
        ]
        assert [(r.to, r.code) for r in c.records("failed")] == [("fetcher", "timeout")]


async def test_a_crash_of_the_fetcher_reaches_the_researcher_too(desk, web, caplog):
    async with run(on_site(desk, web, client=False)) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "What is 1 + 1, and what about otters?"), "router")
        assert answer.text.splitlines() == [
            "1 + 1 = 2",
            "(The system says: The message could not be processed.)",
        ]
    assert "provides no AsyncClient" in caplog.text


@pytest.fixture
def no_room(desk):
    Path("out").write_text("in the way")


@pytest.mark.usefixtures("no_room")
async def test_an_outbox_that_cannot_write_is_reported(desk):
    async with run(desk) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "6 * 7, mail it to me"), "router")
        assert answer == o.make("Answer", "That did not work: The message could not be processed.")


async def test_conversations_at_the_same_time_do_not_mix(desk):
    async with run(desk) as o:
        got = {}

        async def one(number):
            c = await o.open()
            question = f"How much is {number} % of 1000, and half of that, and what about otters?"
            got[number] = (await c.ask(o.make("Question", question), "router")).text.splitlines()

        async with anyio.create_task_group() as tasks:
            for number in range(1, 13):
                tasks.start_soon(one, number)
        for number, lines in got.items():
            assert lines[:2] == [f"1000 * {number} / 100 = {number * 10}", f"ans / 2 = {number * 5}"]
            assert len(lines) == 4


async def test_questions_of_one_conversation_at_the_same_time_do_not_mix(desk):
    async with run(desk) as o:
        c = await o.open()
        got = {}

        async def one(number):
            got[number] = (await c.ask(o.make("Question", f"What is {number} + {number}?"), "router")).text

        async with anyio.create_task_group() as tasks:
            for number in range(10, 20):
                tasks.start_soon(one, number)
        assert got == {number: f"{number} + {number} = {2 * number}" for number in range(10, 20)}


# The researcher and its model


async def test_the_model_sees_the_payloads_of_its_peers_and_no_other_listener(desk, web):
    prompts = []

    async def listen(prompt, transcript):
        prompts.append(prompt)
        return sys.modules["listeners.model"].Turn(text="done")

    async with run(on_site(desk, web, listen)) as o:
        c = await o.open()
        assert (await c.ask(o.make("Question", "Well?"), "router")).text == "done"
        (prompt,) = prompts
        for peer in ("calculator", "fetcher", "summariser"):
            assert f"## {peer}\n" in prompt
        assert "outbox" not in prompt
        assert f"Start at {web.url}/ " in prompt


async def test_a_call_of_something_that_does_not_exist_ends_the_research(desk, web):
    async def dream(prompt, transcript):
        model = sys.modules["listeners.model"]
        return model.Turn([model.Call("oracle", "Ask", {"what": "?"})])

    async with run(on_site(desk, web, dream)) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "Well?"), "router")
        assert answer.text == "The model asked for something that does not exist."


async def test_a_call_that_breaks_its_schema_comes_back_with_corrections(desk, web):
    heard = []

    async def stumble(prompt, transcript):
        heard.append(transcript[-1])
        model = sys.modules["listeners.model"]
        if len(heard) == 1:
            return model.Turn([model.Call("fetcher", "Fetch", {"url": "file:///etc/passwd"})])
        return model.Turn(text="never mind")

    async with run(on_site(desk, web, stumble)) as o:
        c = await o.open()
        assert (await c.ask(o.make("Question", "Well?"), "router")).text == "never mind"
        assert heard[1].who == "system"
        assert "does not satisfy its schema" in heard[1].text
        assert "url" in heard[1].text


async def test_a_model_that_finds_no_end_is_ended(desk, web):
    async def dither(prompt, transcript):
        model = sys.modules["listeners.model"]
        return model.Turn([model.Call("calculator", "Calculate", {"expression": "1 + 1"})])

    async with run(on_site(with_settings(desk, "researcher", turns=3), web, dither)) as o:
        c = await o.open()
        answer = await c.ask(o.make("Question", "Well?"), "router")
        assert answer.text == "I found no answer within 3 turns."
        assert len([r for r in c.records("sent") if r.to == "calculator"]) == 3


async def test_a_turn_may_call_several_listeners_at_once(desk, web):
    web.page("/", "<title>Front</title><p>Hello.</p>")
    heard = []

    async def call_both(prompt, transcript):
        model = sys.modules["listeners.model"]
        if len(transcript) == 1:
            return model.Turn(
                [
                    model.Call("calculator", "Calculate", {"expression": "1 + 1"}),
                    model.Call("fetcher", "Fetch", {"url": f"{web.url}/"}),
                    model.Call("calculator", "Calculate", {"expression": "2 + 2"}),
                ]
            )
        heard.extend(said.text for said in transcript if said.who in ("calculator", "fetcher"))
        return model.Turn(text="done")

    async with run(on_site(desk, web, call_both)) as o:
        c = await o.open()
        assert (await c.ask(o.make("Question", "Well?"), "router")).text == "done"
        assert sorted(heard) == ["1 + 1 = 2", "2 + 2 = 4", f"{web.url}/\nFront\nHello."]


# The outbox and the notes


@pytest.mark.parametrize(
    ("to", "subject"),
    [
        ("eve@evil.example\nBcc: all@desk.example", "Hello"),
        ("Eve <eve@evil.example>", "Hello"),
        ("a@example.org, b@example.org", "Hello"),
        ("ada@example.org", "Hello\r\nBcc: all@desk.example"),
    ],
)
async def test_a_mail_that_would_change_its_headers_is_refused(desk, to, subject):
    async with run(desk) as o:
        c = await o.open()
        refused = await c.ask(o.make("Mail", to, subject, "Hello."), "outbox")
        assert isinstance(refused, SystemError)
        assert refused.code == "validation"
    assert mails() == []


def test_a_header_with_a_line_break_is_refused_even_behind_the_schema(desk):
    outbox, payloads = sys.modules["listeners.outbox"], sys.modules["listeners.payloads"]
    with pytest.raises(ValueError, match="linefeed"):
        outbox.compose(
            payloads.Mail("ada@example.org", "Hello\nBcc: b@example.org", "Hi"), "desk@desk.example"
        )


async def test_a_note_that_names_nobody_goes_to_both(desk):
    async with run(desk) as o:
        c = await o.open()
        for text in ("otters first", "then the badgers"):
            replies = dict(await c.replies(o.make("Note", text)))
        assert replies == {
            "journal": o.make("NoteList", ["otters first", "then the badgers"]),
            "metrics": o.make("NoteCount", notes=2, words=5),
        }


async def test_the_demonstration_runs(desk, demonstration):
    lines = demonstration.splitlines()
    assert lines[-1] == "/quit"
    async with run(desk) as o:
        c = await o.open()
        payloads = {b.listener.name: b.listener.payloads[0] for b in desk.listeners}
        for line in lines[:-1]:
            name, _, text = line.partition(" ")
            addressed = name.startswith("@")
            payload = payloads[name[1:]](text) if addressed else line.encode()
            replies = await c.replies(payload, name[1:] if addressed else None)
            assert replies
            assert not [answer for _, answer in replies if isinstance(answer, SystemError)]
    assert len(mails()) == 1
