"""What an invocation sets in its context is gone with it: context variables, arithmetic, settings, its own task."""

from __future__ import annotations

import asyncio
import decimal
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest

from agentserver import HandlerResponse, invocation
from agentserver.pump.editions import supply, unchangeable
from agentserver.pump.invoke import CleanContext
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk

respond = HandlerResponse.respond
SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


async def marking(payload, metadata):
    before = SEEN.get()
    SEEN.set(payload.text)
    await asyncio.sleep(0)
    return respond(Answer(before))


async def calculating(payload, metadata):
    before = decimal.getcontext().prec
    decimal.getcontext().prec = 3
    decimal.getcontext().traps[decimal.Inexact] = True
    return respond(Answer(str(before)))


@pytest.mark.anyio
async def test_variables_of_one_conversation_are_invisible_to_another():
    async with desk((listener("a"), marking), concurrency=1) as d:
        assert [await d.ask(Ask(f"{n}")) for n in range(3)] == [Answer("nothing")] * 3


@pytest.mark.anyio
async def test_variables_set_before_the_server_started_are_visible_to_all():
    SEEN.set("the lifespan's")
    async with desk((listener("a"), marking), concurrency=1) as d:
        assert [await d.ask(Ask(f"{n}")) for n in range(2)] == [Answer("the lifespan's")] * 2


@pytest.mark.anyio
async def test_arithmetic_does_not_leak_though_it_is_changed_in_place():
    decimal.getcontext()  # from here on there is one to be shared
    async with desk((listener("a"), calculating), concurrency=1) as d:
        assert [await d.ask(Ask("x")) for _ in range(3)] == [Answer("28")] * 3
    assert decimal.getcontext().prec == 28


def test_each_context_is_fresh_and_begins_with_its_makers_variables():
    def change():
        found = (SEEN.get(), decimal.getcontext().prec)
        SEEN.set("changed")
        decimal.getcontext().prec = 7
        return found

    with decimal.localcontext(prec=50):
        clean = CleanContext()
    assert [clean.copy().run(change) for _ in range(2)] == [("nothing", 50)] * 2


@dataclass
class Loose:
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tight:
    limit: Decimal
    folder: Path = Path()
    inner: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Porous:
    inner: Loose = field(default_factory=Loose)


@pytest.mark.anyio
async def test_changes_of_settings_in_one_invocation_are_invisible_to_another():
    async def hoarding(payload, metadata):
        names = invocation().settings.inner.names
        names.append(payload.text)
        return respond(Answer(str(len(names))))

    async with desk((listener("a"), hoarding), settings=Porous()) as d:
        assert [await d.ask(Ask("x")) for _ in range(2)] == [Answer("1")] * 2


@pytest.mark.parametrize("value", [None, 1, "x", Path("a"), (1, ("x",)), frozenset({1}), Tight(Decimal(1))])
def test_immutable_settings_are_shared(value):
    assert unchangeable(value)
    assert supply(value)() is value


@pytest.mark.parametrize("value", [[1], {"a": 1}, Loose(), Porous(), (1, [2]), Tight([]), object()])
def test_mutable_settings_are_copied(value):
    give = supply(value)
    assert give() is not give()
