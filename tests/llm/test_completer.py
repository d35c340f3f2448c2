"""The choice of a backend, repetition, and the deadline."""

from __future__ import annotations

import asyncio

import pytest

from agentserver.completion import Backend, Completion, CompletionError, CompletionFault
from agentserver.llm import completer as module
from tests.llm.conftest import models, request, scripted
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


def count_failures(name, *faults):
    """A backend that fails in these ways, one by one, and then answers with its name; and how often it was asked."""
    asked = []

    def script(prompt):
        asked.append(name)
        if len(asked) <= len(faults) and faults[len(asked) - 1] is not None:
            after = 0.01 if faults[len(asked) - 1] is CompletionFault.RATE else None
            raise CompletionError(faults[len(asked) - 1], name, after=after)
        return Completion(name)

    return Backend(name, "scripted", name, script=script), asked


async def test_failover_asks_the_next_and_comes_back_to_the_first():
    one, asked_one = count_failures("one", CompletionFault.UNAVAILABLE)
    two, asked_two = count_failures("two")
    async with models(one, two) as completer:
        assert (await completer.complete("m", request())).content == "two"
        assert (await completer.complete("m", request())).content == "one"
    assert (len(asked_one), len(asked_two)) == (2, 1)


async def test_round_robin_takes_turns():
    backends = [count_failures(name)[0] for name in "abc"]
    async with models(*backends, strategy="round-robin") as completer:
        said = [(await completer.complete("m", request())).content for _ in range(4)]
    assert said == ["a", "b", "c", "a"]


async def test_a_backend_that_fails_takes_its_turn_alone():
    dead, asked = count_failures("a", *[CompletionFault.REJECTED] * 9)
    async with models(
        dead, count_failures("b")[0], count_failures("c")[0], strategy="round-robin"
    ) as completer:
        said = [(await completer.complete("m", request())).content for _ in range(4)]
    assert said == ["b", "b", "c", "b"]
    assert len(asked) == 2


async def test_least_loaded_asks_who_has_room():
    going = asyncio.Event()

    async def wait(prompt):
        await going.wait()
        return Completion("slow")

    slow = Backend("slow", "scripted", "slow", script=wait, concurrency=2)
    async with models(slow, count_failures("free")[0], strategy="least-loaded") as completer:
        first = asyncio.create_task(completer.complete("m", request()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (await completer.complete("m", request())).content == "free"
        going.set()
        assert (await first).content == "slow"


@pytest.mark.parametrize(
    "fault",
    [CompletionFault.CONTEXT, CompletionFault.CREDENTIALS, CompletionFault.REJECTED, CompletionFault.QUOTA],
)
async def test_a_backend_is_not_asked_again_after_an_error_that_it_cannot_correct(fault):
    one, asked = count_failures("one", fault)
    async with models(one) as completer:
        with pytest.raises(CompletionError) as caught:
            await completer.complete("m", request())
    assert caught.value.fault is fault
    assert len(asked) == 1


async def test_a_backend_that_requests_a_pause_gets_it(remote, providers):
    providers.retry_after = "1"
    async with models(remote("429-then-ok")) as completer:
        began = asyncio.get_running_loop().time()
        assert (await completer.complete("m", request())).content == "hello from 429-then-ok"
    assert asyncio.get_running_loop().time() - began >= 1
    assert len(providers.asked) == 2


async def test_it_is_not_waited_for_beyond_the_deadline(remote, providers):
    providers.retry_after = "3600"
    async with models(remote("429-then-ok")) as completer:
        for _ in range(2):
            with pytest.raises(CompletionError) as caught:
                await completer.complete("m", request(until=5))
            assert caught.value.fault is CompletionFault.RATE
    assert len(providers.asked) == 1


async def test_a_backend_in_its_pause_is_passed_over(remote, providers):
    providers.retry_after = "3600"
    async with models(remote("429-then-ok"), remote("ok")) as completer:
        for _ in range(3):
            assert (await completer.complete("m", request())).model == "ok"
    assert providers.models() == ["429-then-ok", "ok", "ok", "ok"]


async def test_attempts_end():
    one, asked = count_failures("one", *[CompletionFault.RATE] * 9)
    async with models(one, retries=1) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request())
    assert len(asked) == 2


async def test_the_pause_before_another_round_fits_into_the_time(monkeypatch):
    for name in ("BACKOFF", "LONGEST"):
        monkeypatch.setattr(module, name, 10.0 * HANGS)
    one, asked = count_failures("one", *[CompletionFault.UNAVAILABLE] * 9)
    async with models(one, retries=9) as completer:
        with pytest.raises(CompletionError):
            await completer.complete("m", request(until=HANGS))
    assert len(asked) == 1


async def test_concurrency_is_held(remote, providers):
    async with models(remote("busy", concurrency=2)) as completer:
        await asyncio.gather(*(completer.complete("m", request()) for _ in range(6)))
    assert providers.most == 2


async def test_a_cancelled_call_gives_its_slot_back():
    async def never_answer(prompt):
        await asyncio.sleep(60)

    async with models(Backend("b", "scripted", "b", script=never_answer, concurrency=1)) as completer:
        for _ in range(2):
            task = asyncio.create_task(completer.complete("m", request()))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert completer._places["b"].pace.load == 0


async def test_an_unknown_model_is_named():
    async with models(scripted("a", {"text": "x"})) as completer:
        with pytest.raises(LookupError, match=r"no model \"n\" .*known: m"):
            await completer.complete("n", request())
