"""A task that takes its first step at once is otherwise what a task of asyncio is."""

from __future__ import annotations

import asyncio
import contextvars
import io
from contextvars import ContextVar

import anyio
import pytest

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.pump.boundary import STREAK
from agentserver.pump.calls import PromptTask
from tests.core.paper import Answer, Ask, listener
from tests.machine import HANGS
from tests.pump.desk import desk

pytestmark = pytest.mark.anyio
SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


def begin_task(work):
    task = PromptTask(loop=asyncio.get_running_loop())
    task.begin(work, contextvars.copy_context(), asyncio.current_task())
    return task


async def quick():
    return None


async def turn_loop():
    for _ in range(3):
        await asyncio.sleep(0)


async def time_out():
    async with asyncio.timeout(HANGS):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
    assert asyncio.current_task().cancelling() == 0


async def use_scope():
    with anyio.move_on_after(0) as scope:
        await anyio.sleep(1)
    assert scope.cancelled_caught
    with anyio.fail_after(HANGS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn_loop)
    assert await anyio.to_thread.run_sync(lambda: 1) == 1


async def told_why():
    asyncio.current_task().cancel("at once")
    with pytest.raises(asyncio.CancelledError, match="at once"):
        await asyncio.sleep(1)
    asyncio.get_running_loop().call_soon(asyncio.current_task().cancel, "meanwhile")
    with pytest.raises(asyncio.CancelledError, match="meanwhile"):
        await asyncio.sleep(1)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.sleep(1)
    assert scope.cancelled_caught


async def use_group():
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(raise_value_error())
            await asyncio.sleep(1)
    assert asyncio.current_task().cancelling() == 0


async def raise_value_error():
    await asyncio.sleep(0)
    raise ValueError("x")


async def raising_at_once():
    raise ValueError("x")


async def cancelling_itself():
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


async def cancelling_itself_last():
    await asyncio.sleep(0)
    asyncio.current_task().cancel()


async def cancelling_what_it_waits_for():
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def swallow_cancel():
    asyncio.current_task().cancel()
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        asyncio.current_task().uncancel()
    await asyncio.wait_for(turn_loop(), HANGS)


class Odd:
    def __await__(self):
        yield "no future"


async def waiting_for_what_is_no_future():
    await Odd()


async def waiting_for_itself():
    await asyncio.current_task()


WORKS = [
    *(quick, turn_loop, time_out, use_scope, told_why, use_group, raise_value_error, raising_at_once, cancelling_itself, cancelling_itself_last),
    *(cancelling_what_it_waits_for, swallow_cancel, waiting_for_what_is_no_future, waiting_for_itself),
]  # fmt: skip


async def end_cancelled(task):
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError
    return type(task.exception())


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
async def test_work_ends_as_it_would_in_a_task_of_asyncio(work):
    assert await end_cancelled(begin_task(work())) is await end_cancelled(asyncio.create_task(work()))


async def test_work_that_does_not_wait_ends_at_once_in_a_task_and_a_context_of_its_own():
    found = []

    async def work():
        SEEN.set("set inside")
        found.append(asyncio.current_task())

    outer = asyncio.current_task()
    task = begin_task(work())
    assert task.done()
    assert found == [task]
    assert asyncio.current_task() is outer
    assert SEEN.get() == "nothing"


async def test_work_that_waits_continues_in_the_same_task_and_context_and_is_visible_meanwhile():
    going = asyncio.Event()
    found = []

    async def work():
        SEEN.set("set inside")
        before = asyncio.current_task()
        await going.wait()
        found.extend([asyncio.current_task() is before, SEEN.get()])

    task = begin_task(work())
    assert task in asyncio.all_tasks()
    assert asyncio.current_task() is not task
    going.set()
    await task
    assert found == [True, "set inside"]
    assert task not in asyncio.all_tasks()


async def test_cancelling_it_wakes_it_and_counts():
    task = begin_task(asyncio.sleep(1000))
    assert (task.cancelling(), task.cancel(), task.cancel(), task.cancelling(), task.uncancel()) == (
        *(0, True, True, 2, 1),
    )
    assert await end_cancelled(task) is asyncio.CancelledError
    assert not task.cancel()


async def test_its_work_alone_ends_it():
    task = begin_task(asyncio.sleep(0))
    for refuse in (task.set_result, task.set_exception):
        with pytest.raises(RuntimeError, match="a task does not take"):
            refuse(None)
    task.set_name("a name")
    assert task.get_name() == "a name"
    assert task.get_coro() is not None
    assert task.get_context() is not None
    await task


async def test_an_invocations_changes_to_its_task_reach_no_other():
    async def meddle_task(payload, metadata):
        task = asyncio.current_task()
        found = f"{task.get_name() == 'meddled'} {task.cancelling()}"
        task.set_name("meddled")
        asyncio.get_running_loop().call_soon(task.cancel)
        anyio.CancelScope(deadline=0).__enter__()  # and never left
        return HandlerResponse.respond(Answer(found))

    async with desk((listener("a"), meddle_task), concurrency=1) as d:
        assert [await d.ask(Ask("x")) for _ in range(4)] == [Answer("False 0")] * 4


@pytest.mark.parametrize("name", [name for name in dir(asyncio.Task) if not name.startswith("_")])
def test_it_has_everything_that_a_task_of_asyncio_has(name):
    assert hasattr(PromptTask, name)


async def test_its_frames_can_be_shown_while_it_runs_and_while_it_waits():
    shown = []

    async def work():
        shown.append(asyncio.current_task())
        shown.extend(frame.f_code.co_name for frame in asyncio.current_task().get_stack())
        await asyncio.sleep(0)

    task = begin_task(work())
    text = io.StringIO()
    task.print_stack(file=text)
    assert (shown[0], shown[-1]) == (task, "work")
    assert "in work" in text.getvalue()
    await task


class AwaitedValue:
    """Says of itself that a task can wait for it."""

    _asyncio_future_blocking = True

    def __await__(self):
        yield self

    def get_loop(self):
        return asyncio.get_running_loop()

    def add_done_callback(self, wake, *, context):
        self.done = wake

    def result(self):
        return None


class UnattachedValue(AwaitedValue):
    get_loop = None


class UnwillingValue(AwaitedValue):
    def get_loop(self):
        raise SystemExit


class Deaf(AwaitedValue):
    def add_done_callback(self, wake):
        raise AssertionError("it takes no context")


class VeiledValue(AwaitedValue):
    @property
    def _asyncio_future_blocking(self):
        raise ValueError("not told")


class Stubborn(AwaitedValue):
    def cancel(self, *_):
        raise SystemExit


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("odd", [UnattachedValue, UnwillingValue, Deaf, VeiledValue])
async def test_an_exception_of_the_awaited_is_raised_in_the_work_and_the_server_continues(odd, waits):
    async def wait_and_answer(payload, metadata):
        if payload == Ask("well"):
            return HandlerResponse.respond(Answer("well"))
        if waits:
            await asyncio.sleep(0)
        try:
            await odd()
        except BaseException as error:
            raise ValueError("it was raised here") from error

    async with desk((listener("a"), wait_and_answer)) as d:
        for _ in range(STREAK + 1):
            assert (await d.ask(Ask("odd"))).code == Code.INTERNAL
        assert await d.ask(Ask("well")) == Answer("well")
        told = [WORDING.join_lines(record.detail) for record in d.records if record.event is Event.FAILED]
        assert told == ["ValueError: it was raised here"] * (STREAK + 1)


async def test_uncancellable_work_delays_no_cancellation_and_is_cancelled_when_it_continues():
    stubborn = Stubborn()

    async def work():
        await stubborn

    task = begin_task(work())
    assert task.cancel("late")
    assert not task.done()
    asyncio.get_running_loop().call_soon(stubborn.done, stubborn)
    assert await end_cancelled(task) is asyncio.CancelledError
