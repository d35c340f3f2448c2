"""Flows that a test runs again at each answer."""

from __future__ import annotations

import itertools

import pytest

from agentserver.flow import ask, random
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism, organism_of

pytestmark = pytest.mark.anyio

COUNT = itertools.count()


async def echo(text: str) -> str:
    return text


Echo = payload_of(echo)


async def steady(word: str) -> str:
    await ask("echo", Echo(f"{await random()}"))
    return (await ask("echo", Echo(word))).value


async def fickle(word: str) -> str:
    await ask("echo", Echo(f"{next(COUNT)}"))
    return (await ask("echo", Echo(word))).value


HOUSE = organism_of(
    listener("echo", echo),
    listener("steady", steady, peers=["echo"]),
    listener("fickle", fickle, peers=["echo"]),
)


async def test_a_flow_that_repeats_itself_passes():
    async with organism(HOUSE, repeat_flows=True) as o:
        assert (await o.ask(payload_of(steady)("x"), to="steady")).value == "x"


async def test_a_flow_that_differs_fails_the_test_with_its_line():
    line = fickle.__code__.co_firstlineno + 1
    with pytest.raises(
        AssertionError,
        match=rf"differs when it is run again: fickle, line {line}: .*the record has: ask echo",
    ):
        async with organism(HOUSE, repeat_flows=True) as o:
            await o.ask(payload_of(fickle)("x"), to="fickle")


async def test_it_passes_unseen_otherwise():
    async with organism(HOUSE) as o:
        assert (await o.ask(payload_of(fickle)("x"), to="fickle")).value == "x"
