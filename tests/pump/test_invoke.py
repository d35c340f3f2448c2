"""Whatever a handler does to itself, its caller gets an answer and the workers live on."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import weakref
from dataclasses import dataclass

import anyio
import pytest

from agentserver import HandlerResponse, xmlify
from agentserver.config.yaml.secrets import RedactingFilter, Secrets
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import answer, desk, wait_until

pytestmark = pytest.mark.anyio
respond = HandlerResponse.respond


class Unprintable(Exception):
    def __repr__(self):
        raise ValueError("not even that")

    __str__ = __repr__


class Unwritable(Exception):
    @property
    def __notes__(self):
        raise KeyError("notes")


class UnlinkedError(Exception):
    @property
    def __cause__(self):
        raise SystemExit(9)


class Whim(BaseException):
    """Not an Exception."""


def raise_in_handler(error):
    async def handler(payload, metadata):
        raise error

    return handler


class Endless(list):
    def __iter__(self):
        raise OSError("cannot be read")


def return_value(value):
    async def handler(payload, metadata):
        return value

    return handler


async def cancelling_itself(payload, metadata):
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def cancelling_itself_and_returning(payload, metadata):
    asyncio.current_task().cancel()
    return respond(Answer("x"))


async def exit_process(payload, metadata):
    sys.exit(3)


@xmlify
@dataclass
class Sly:
    """Its field cannot be read once it holds a certain text."""

    text: str = "x"

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if found == "armed":
            raise KeyError(name)
        return found


@xmlify
@dataclass(frozen=True)
class Fussy:
    """Its constructor refuses one text that the schema accepts, with an exception of its own."""

    text: str

    def __post_init__(self):
        if self.text == "boom":
            raise Unprintable


@pytest.mark.parametrize(
    "handler",
    [
        raise_in_handler(Unprintable()),
        raise_in_handler(Whim()),
        raise_in_handler(GeneratorExit()),
        raise_in_handler(BaseExceptionGroup("g", [asyncio.CancelledError()])),
        raise_in_handler(ExceptionGroup("g", [ValueError("x")])),
        raise_in_handler(asyncio.CancelledError()),
        exit_process,
        cancelling_itself,
        cancelling_itself_and_returning,
        return_value(Endless([1])),
        return_value(HandlerResponse(Ask("x"), None)),
        return_value(HandlerResponse(Ask("x"), 42)),
        return_value(respond(object())),
    ],
)
async def test_a_crash_of_any_kind_is_internal_and_the_worker_lives_on(handler):
    done = False
    async with desk((listener("a"), handler), (listener("b"), answer), concurrency=1) as d:
        for _ in range(3):
            assert (await d.ask(Ask("hi"))).code == "internal"
            assert await d.ask(Ask("hi"), to="b") == Answer("re: hi")
        done = True
    assert done  # a server that stops by itself would end the block above in silence


async def test_a_payload_that_cannot_be_read_when_it_is_sent_is_the_handlers_crash():
    async with desk((listener("a"), return_value(respond(Sly("armed")))), payloads=(Answer, Sly)) as d:
        assert (await d.ask(Ask("hi"))).code == "internal"


async def test_a_constructor_that_refuses_a_valid_payload_is_a_crash():
    async with desk((listener("a", payloads=(Fussy,), retries=1), answer), concurrency=1) as d:
        handle = await d.open()
        markup = d.markup(Fussy("fine")).replace(b"fine", b"boom")
        assert d.decode(await handle.ask(markup, "a")).code == "internal"
        assert [record.event for record in d.records if record.to == "a"].count("retried") == 1
        assert await d.ask(Fussy("fine")) == Answer("re: fine")


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_crash_is_logged_once_and_as_an_error(caplog, retries):
    async with desk((listener("a", retries=retries), raise_in_handler(ValueError("oh")))) as d:
        await d.ask(Ask("hi"))
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.levelno for record in logged] == [logging.ERROR] * (retries + 1)
    assert all(record.exc_info for record in logged)


async def test_an_unprintable_exception_is_logged_all_the_same(caplog):
    async with desk((listener("a"), raise_in_handler(Unprintable()))) as d:
        await d.ask(Ask("hi"))
    (crash,) = (record for record in caplog.records if "crashed" in record.message)
    assert crash.levelno == logging.ERROR
    assert "Unprintable" in caplog.text


@pytest.mark.parametrize(
    "error", [Unwritable("x"), UnlinkedError("x"), SyntaxError("m", ("file", 1, 2, 5))], ids=repr
)
async def test_an_unwritable_result_is_a_crash_at_once_and_named_in_the_log(error, caplog):
    caplog.handler.addFilter(RedactingFilter(Secrets()))  # what fails in a filter is not logging's to catch
    async with desk((listener("a"), raise_in_handler(error))) as d:
        assert (await d.ask(Ask("hi"))).code == "internal"
    assert f"a {type(error).__name__} that cannot be written out" in caplog.text
    assert "in handler" in caplog.text


async def test_a_handler_may_use_timeouts_and_task_groups_of_its_own():
    async def careful(payload, metadata):
        try:
            async with asyncio.timeout(0.001):
                await anyio.sleep_forever()
        except TimeoutError:
            pass
        with anyio.move_on_after(0.001):
            await anyio.sleep_forever()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        return respond(Answer("fine"))

    async with desk((listener("a"), careful)) as d:
        assert await d.ask(Ask("hi")) == Answer("fine")


async def test_closing_and_the_deadline_at_the_same_moment_give_one_end():
    loop = asyncio.get_running_loop()
    started, ended = [], []

    async def slow(payload, metadata):
        started.append(loop.time())
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(loop.time())

    async with desk((listener("a", deadline=0.02), slow), engine=None) as d:
        for number, delay in enumerate((0.015, 0.02, 0.025), 1):
            handle = await d.open()
            answers = []

            async def one(handle=handle, answers=answers):
                answers.append(await d.ask(Ask("x"), handle=handle))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                await wait_until(
                    lambda number=number: len(started) == number
                )  # one that never began has no end
                await asyncio.sleep(delay)
                await handle.close()
            assert len(answers) == 1
            assert answers[0] is None or answers[0].code == "timeout"
        await wait_until(lambda: len(ended) == 3)
        assert d.pump._accounts.pending == 0
        assert d.pump._invoker._calls == {}


async def test_a_handler_that_ignores_the_end_of_its_thread_has_no_effect():
    started = anyio.Event()

    async def stubborn(payload, metadata):
        started.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return respond(Answer("too late"))

    async with desk((listener("a"), stubborn), concurrency=1) as d:
        handle = await d.open()
        await d.send(handle, Ask("hi"))
        await started.wait()
        await handle.close()
        assert not [record for record in d.records if record.event == "answered"]
        started = anyio.Event()
        other = await d.open()
        await d.send(other, Ask("hi"))
        await started.wait()
        await other.close()


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_handler_may_close_its_own_conversation_in_its_first_step_or_later(turns):
    handles, reached = [], []

    async def close_handler(payload, metadata):
        for _ in range(turns):
            await asyncio.sleep(0)
        await handles[-1].close()
        reached.append(payload)
        await asyncio.sleep(0)
        reached.append("was not cancelled")

    async with desk((listener("a"), close_handler), concurrency=1) as d:
        for _ in range(2):
            handles.append(await d.open())
            assert await d.ask(Ask("x"), handle=handles[-1]) is None
        assert (d.pump._accounts.pending, d.pump._live) == (0, {})
    assert reached == [Ask("x")] * 2


async def test_a_handler_may_be_a_gateway_of_its_own_server():
    desks = []

    async def ask_inner(payload, metadata):
        if payload.text == "inner":
            return HandlerResponse.respond(Answer("inner"))
        return HandlerResponse.respond(await desks[0].ask(Ask("inner")))

    async with desk((listener("a", concurrency=2), ask_inner), concurrency=2) as d:
        desks.append(d)
        assert [await d.ask(Ask("outer")) for _ in range(3)] == [Answer("inner")] * 3


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after waiting"])
async def test_an_ended_call_is_freed_without_the_garbage_collector(waits):
    calls = []

    async def handler(payload, metadata):
        calls.append(weakref.ref(asyncio.current_task()))
        if waits:
            await asyncio.sleep(0.001)
        return respond(Answer("freed"))

    async with desk((listener("a"), handler)) as d:
        gc.disable()
        try:
            assert await d.ask(Ask("hi")) == Answer("freed")
            assert [call() for call in calls] == [None]
        finally:
            gc.enable()
