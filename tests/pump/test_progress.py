"""Progress reports of listeners: recipients, limits, and times without recipients."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentserver import HandlerResponse, invocation
from agentserver.core.messages import Progress
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.guards.lineage.guard import TrustSettings
from agentserver.provenance import Mode
from agentserver.pump.invoke import BURST, LINE
from agentserver.pump.streams import WAITING, ProgressQueue
from agentserver.testing import FakeClock
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk
from tests.pump.relaying import LISTENERS, PAYLOADS, POLICY, Office, guards, send_and_wait

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


def teller(*words):
    async def tell(payload, metadata):
        for word in words:
            invocation().progress(word)
        return respond(Answer("done"))

    return tell


async def collect_progress(*words, one=None, handler=None, redact=None, engine=None):
    """Collect a gateway's progress events during a request, without waiting: further ones may come later."""
    pair = (one or listener("a", progress=True), handler or teller(*words))
    async with desk(pair, engine=engine, clock=FakeClock(step=0.0)) as d:
        if redact is not None:
            object.__setattr__(d.rules, "redact", redact)
        handle = await d.open()

        words = handle.progress()
        assert await d.ask(Ask("go"), handle=handle) == Answer("done")
        await handle.close()
        return [progress async for progress in words]


async def texts(*words, **more):
    return [progress.text for progress in await collect_progress(*words, **more)]


async def test_a_gateway_gets_progress_in_order_with_the_listener_and_the_request():
    found = await collect_progress("one", "two")
    assert [(type(each), each.sender, each.text) for each in found] == [
        (Progress, "a", "one"),
        (Progress, "a", "two"),
    ]
    assert found[0].request == found[1].request != ""


async def test_progress_arrives_while_the_handler_works():
    go = asyncio.Event()

    async def work(payload, metadata):
        invocation().progress("half")
        await go.wait()
        return respond(Answer("done"))

    async with desk((listener("a", progress=True), work)) as d:
        handle = await d.open()
        words = handle.progress()
        await d.send(handle, Ask("go"))
        assert (await anext(words)).text == "half"
        go.set()


async def test_without_permission_no_progress_is_sent():
    assert await texts("one", one=listener("a")) == []


async def test_it_is_one_line_of_bounded_length_and_empty_ones_are_dropped():
    cut = "x" * (LINE - 1) + "\N{HORIZONTAL ELLIPSIS}"
    assert await texts(" two\n lines\t", "", " \n", "x" * LINE, "x" * (LINE + 1)) == [
        "two lines",
        "x" * LINE,
        cut,
    ]


async def test_secrets_are_taken_out_before_anything_is_cut():
    secret = "s" * 40
    found = await texts("x" * (LINE - 10) + secret, redact=lambda text: text.replace(secret, "[gone]"))
    assert found == ["x" * (LINE - 10) + "[gone]"]


async def test_half_a_character_is_sent_in_a_form_that_every_gateway_can_write():
    assert await texts("a file called \udcff", redact=str) == ["a file called \\udcff"]


async def test_more_than_a_few_at_once_are_dropped():
    assert await texts(*map(str, range(1000))) == [str(number) for number in range(BURST)]


async def test_undecodable_progress_is_a_crash_of_the_handler():
    async def wrong(payload, metadata):
        with pytest.raises(TypeError, match="not int"):
            invocation().progress(1)
        return respond(Answer("done"))

    assert await texts(handler=wrong) == []


async def test_a_thread_may_report_progress_and_late_reports_are_dropped():
    left = []

    async def work(payload, metadata):
        left.append(invocation().progress)
        await asyncio.to_thread(left[0], "from a thread")
        return respond(Answer("done"))

    assert await texts(handler=work) == ["from a thread"]
    left[0]("too late")


async def test_progress_is_not_stored(tmp_path):
    path = tmp_path / "j"
    async with SqliteEngine(JournalOptions(path)) as engine:
        assert await texts("canary-4711", engine=engine) == ["canary-4711"]
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"Answer" in kept
    assert b"canary-4711" not in kept


async def test_a_handler_without_audience_loses_only_its_progress():
    async with desk((listener("a", progress=True), teller("one"))) as d:
        handle = await d.open()
        assert await d.ask(Ask("go"), handle=handle) == Answer("done")
        await handle.close()
        assert [progress async for progress in handle.progress()] == []


async def test_of_many_words_the_latest_wait():
    queue = ProgressQueue()
    words = queue.iter_words()
    for number in range(WAITING + 5):
        queue.put(Progress("c", "r", "a", str(number)))
    queue.end()
    assert [each.text async for each in words] == [str(number) for number in range(5, WAITING + 5)]


async def test_progress_before_a_reader_asks_is_dropped():
    async with desk((listener("a"), answer)) as d:
        handle = await d.open()
        handle.tell(Progress(handle.id, "r", "a", "too early"))
        words = handle.progress()
        handle.tell(Progress(handle.id, "r", "a", "half way"))
        assert (await anext(words)).text == "half way"


class TalkingAgents(Office):
    """Every agent and the web tell all that they are given, before they do anything."""

    def _handler(self, name):
        handle = super()._handler(name)

        async def report_handle(payload, metadata):
            invocation().progress(f"{name} was given {payload}")
            return await handle(payload, metadata)

        return report_handle

    def handlers(self):
        return [(replace(one, progress=True), self._handler(one.name)) for one in LISTENERS]


@pytest.mark.parametrize("mode", list(Mode))
async def test_in_enforce_who_was_given_untrusted_text_tells_nothing(mode):
    of = TalkingAgents("The vault stands open behind the old mill.", ())
    asked = guards(TrustSettings(replace(POLICY, mode=mode)))
    async with desk(*of.handlers(), guards=asked, payloads=PAYLOADS) as d:
        handle = await d.open()
        words = handle.progress()
        await send_and_wait(d, handle, "Read the page.")
        await handle.close()
        told = [each async for each in words]
    bound = mode is Mode.ENFORCE
    assert {each.sender for each in told} == (
        {"reader", "web"} if bound else {"reader", "web", "planner", "writer"}
    )
    assert any("old mill" in each.text for each in told) is not bound
    assert "Read the page." in told[0].text
