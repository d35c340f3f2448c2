from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from agentserver import HandlerResponse, SystemError, TodoClosed, invocation, testing, xmlify
from agentserver.contract import Code
from agentserver.core.blueprint import Limits
from agentserver.testing import FakeClock, RefusalError, listener, organism, organism_of

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]


@xmlify
@dataclass(frozen=True)
class Ask:
    what: str


@xmlify
@dataclass(frozen=True)
class Told:
    what: str


async def desk(payload: object, metadata):
    """Asks the library, and passes on its answer."""
    if isinstance(payload, Ask):
        return HandlerResponse(payload, "library")
    said = payload.what if isinstance(payload, Told) else str(payload.code)
    return HandlerResponse.respond(Told(f"{invocation().settings or ''}{said}"))


async def library(payload: Ask, metadata):
    return HandlerResponse.respond(Told(f"all about {payload.what}"))


async def slow(payload: Ask, metadata):
    await anyio.sleep(60)


async def shrug(payload: Ask, metadata):
    return None


async def many(payload: Ask, metadata):
    return [HandlerResponse.respond(Told("one")), HandlerResponse.respond(Told("two"))]


DESK = organism_of(
    listener("desk", desk, Ask, peers=["library"], agent=True, settings="> "),
    listener("library", library),
    listener("slow", slow),
    listener("shrug", shrug),
    listener("many", many),
    limits=Limits(drain=1),
)


async def test_an_answer_is_decoded():
    async with organism(DESK) as o:
        assert await o.ask(Ask("owls"), to="desk") == Told("> all about owls")


async def test_markup_may_be_sent_as_it_is():
    async with organism(DESK) as o:
        markup = b'<Ask xmlns="urn:agentserver:payload:Ask:v1"><what>owls</what></Ask>'
        assert await o.ask(markup, to="library") == Told("all about owls")
        assert (await o.ask(b"<a>", to="library")).code is Code.VALIDATION


async def test_a_system_error_is_an_answer_and_silence_is_not():
    async with organism(DESK) as o:
        assert isinstance(await o.ask(Ask("x")), SystemError)
        assert await o.ask(Ask("x"), to="shrug") is None


async def test_strict_raises_with_the_trace():
    async with organism(DESK, strict=True) as o:
        with pytest.raises(RefusalError, match="Ask: routing: ") as refused:
            await o.ask(Ask("x"))
        assert refused.value.error.code is Code.ROUTING
        with pytest.raises(RefusalError, match=r"(?s)Ask: no answer\n.*test -> shrug  Ask"):
            await o.replies(Ask("x"), to="shrug")


async def test_every_reply():
    async with organism(DESK) as o:
        assert await o.replies(Ask("x"), to="many") == [Told("one"), Told("two")]
        assert await o.replies(Ask("x"), to="shrug") == []


async def test_sent_messages_are_collected_when_the_conversation_is_idle():
    async with organism(DESK) as o:
        first = await o.send(Ask("x"), to="many")
        assert await o.send(Ask("y"), to="library") != first
        assert sorted(told.what for told in await o.drain()) == ["all about y", "one", "two"]
        assert await o.drain() == []


async def test_a_message_under_an_id_counts_once():
    async with organism(DESK) as o:
        first = await o.send(Ask("x"), to="library", request="mine")
        assert await o.drain() == [Told("all about x")]
        assert await o.send(Ask("x"), to="library", request="mine") == first
        assert await o.drain() == []
        assert await o.ask(Ask("x"), to="library", request="mine") == Told("all about x")
        assert await o.replies(Ask("x"), to="library", request="mine") == [Told("all about x")]


async def test_replies_that_ask_did_not_take_do_not_answer_a_sent_message():
    async with organism(DESK) as o:
        assert await o.ask(Ask("x"), to="many") == Told("one")
        await o.send(Ask("y"), to="library")
        assert await o.drain() == [Told("all about y")]


async def test_a_late_answer_fails_with_the_trace():
    async with organism(DESK, timeout=1.0) as o:  # time for the message to come there
        with pytest.raises(TimeoutError, match=r"(?s)Ask: not finished within 1 s\n.*test -> slow  Ask"):
            await o.ask(Ask("x"), to="slow")


async def test_scripted_peers_answer_in_turn_and_report_their_inputs():
    async with organism(DESK, scripted={"library": [Told("one"), HandlerResponse.respond(Told("two"))]}) as o:
        assert [await o.ask(Ask(x), to="desk") for x in "ab"] == [Told("> one"), Told("> two")]
        assert [(call.payload, call.metadata.from_id) for call in o.calls("library")] == [
            (Ask("a"), "desk"),
            (Ask("b"), "desk"),
        ]


async def test_steps_of_every_kind():
    async def later(payload, metadata):
        return Told(f"later {payload.what}")

    script = [lambda payload, metadata: Told("now"), later, [Told("a"), Told("b")], None, RuntimeError("no")]
    async with organism(DESK, scripted={"library": script}) as o:
        assert await o.ask(Ask("x"), to="library") == Told("now")
        assert await o.ask(Ask("x"), to="library") == Told("later x")
        assert await o.replies(Ask("x"), to="library") == [Told("a"), Told("b")]
        assert await o.ask(Ask("x"), to="library") is None
        assert (await o.ask(Ask("x"), to="library")).code is Code.INTERNAL


async def test_a_script_may_be_a_function():
    async with organism(DESK, scripted={"library": lambda payload, metadata: Told(payload.what * 2)}) as o:
        assert await o.ask(Ask("x"), to="library") == Told("xx")


async def test_a_script_that_is_too_short_fails_the_test():
    with pytest.raises(AssertionError, match="library was called 2 times; its script has 1"):
        async with organism(DESK, scripted={"library": [Told("x")]}) as o:
            await o.ask(Ask("x"), to="library")
            await o.ask(Ask("x"), to="library")


async def test_an_assertion_inside_a_script_fails_the_test():
    def check(payload, metadata):
        assert payload.what == "expected"

    with pytest.raises(AssertionError, match="expected"):
        async with organism(DESK, scripted={"library": check}) as o:
            await o.ask(Ask("x"), to="desk")


async def test_a_scripted_name_must_exist():
    with pytest.raises(ValueError, match="no listener 'libary'; did you mean 'library'"):
        async with organism(DESK, scripted={"libary": []}):
            pass
    with pytest.raises(ValueError, match=r"no listener 'zzz'$"):
        async with organism(DESK, scripted={"zzz": []}):
            pass


@pytest.mark.parametrize("error", [AssertionError("mine"), KeyError("mine"), pytest.skip.Exception("mine")])
async def test_a_failure_of_the_test_is_raised_unchanged(error):
    with pytest.raises(type(error)) as caught:
        async with organism(DESK):
            raise error
    assert caught.value is error


async def test_several_failures_stay_together():
    with pytest.raises(ExceptionGroup) as caught:
        async with organism(DESK):
            raise ExceptionGroup("two", [ValueError("a"), ValueError("b")])
    assert len(caught.value.exceptions) == 2


async def test_the_same_test_leaves_the_same_trace():
    async def trace():
        async with organism(DESK) as o:
            await o.ask(Ask("x"), to="desk")
            return o.trace()

    first, second = await trace(), await trace()
    assert first == second
    assert "test -> desk  Ask" in str(first)
    assert "library -> desk  Told" in str(first)


async def test_threads_as_they_stand():
    async with organism(DESK) as o:
        await o.ask(Ask("x"), to="desk")
        await o.send(Ask("x"), to="slow")
        root, own, other = o.threads()
        assert (root.owner, root.state, root.parent) == ("test", "waiting", None)
        assert (own.owner, own.state, own.queued, own.parent) == ("desk", "dormant", 0, root.id)
        assert (other.owner, other.state, other.queued) == ("slow", "working", 1)
        await o.handle.close()
        assert o.threads() == []
        assert await o.drain() == []


def test_the_clock_counts():
    clock = FakeClock(now=5.0, step=0.5)
    assert clock.moment().now == 5.5
    clock.advance(10)
    moment = clock.moment()
    assert (moment.now, clock.count) == (16.0, 2)
    assert moment.ids().__next__() == FakeClock(count=1).moment().ids().__next__()


def test_a_listener_in_code_is_checked():
    with pytest.raises(TypeError, match="async def"):
        listener("x", lambda payload, metadata: None, Ask)
    with pytest.raises(TypeError, match="name the payload classes"):
        listener("x", desk)
    assert listener("library", library, deadline=1.0).listener.payloads == (Ask,)
    assert listener("library", library, description="D").listener.description == "D"


def test_the_kit_is_lazy():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        testing.nothing  # noqa: B018
    for name in testing.__all__:
        assert getattr(testing, name) is not None
    loaded = "import sys, agentserver.testing.plugin; print([m for m in sys.modules if m.startswith('agentserver.') and m > 'agentserver.d'])"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "agentserver.testing.kit" not in ran.stdout
    assert "agentserver.assembly" not in ran.stdout


async def test_the_fixture_finds_files_from_the_root(organism, pytestconfig, made_path):
    assert pytestconfig.rootpath == ROOT
    async with organism(made_path, environ={"WHO": "Ada"}) as o:
        assert await o.ask(o.server.organism.listeners[0].listener.payloads[0]("x"), to="a") is None
    async with organism(DESK) as o:
        assert o.strict is False


@pytest.fixture
def made_path(tmp_path):
    (tmp_path / "kit_desk.py").write_text(
        "from dataclasses import dataclass\nfrom agentserver import xmlify\n\n@xmlify\n@dataclass(frozen=True)\nclass P:\n"
        "    a: str\n\n\nasync def handle(payload: P, metadata):\n    return None\n"
    )
    path = tmp_path / "organism.yaml"
    path.write_text(
        'name: k\nlisteners:\n  - {name: a, description: "A for ${WHO}.", handler: kit_desk.handle}\n'
    )
    return path


async def hears(payload: Ask | SystemError, metadata):
    """Takes questions, and gets the outcomes of its own messages."""


def test_a_listener_declares_nothing_of_the_systems():
    assert listener("a", hears).listener.payloads == (Ask,)
    with pytest.raises(TypeError, match="SystemError belongs to the system"):
        listener("a", hears, SystemError)
    with pytest.raises(TypeError, match="TodoClosed belongs to the system"):
        listener("a", hears, replies=[TodoClosed])


@pytest.fixture
def ticking_clock():
    clock = FakeClock(step=0.0)

    async def slow(payload: Ask, metadata):
        clock.advance(2.5)
        return HandlerResponse.respond(Told(payload.what))

    return organism_of(listener("slow", slow)), clock


async def test_a_record_tells_how_long_a_handler_took_by_the_clock(ticking_clock):
    desk, clock = ticking_clock
    async with organism(desk, clock=clock) as o:
        await o.ask(Ask("x"), to="slow")
        (handled,) = (one for one in o.trace().records if one.event == "handled")
        assert (handled.took, handled.began) == (2.5, handled.at - 2.5)
