"""What tracked tools raise; the rest of the decorator is tested with the library face."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from agentserver.provenance import Mode, Policy, Sleuth, TaintViolationError
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import ArgumentRule, SinkRule
from tests.provenance.adapters.scene import FOE, PAGE, came_from, scene, watching


def plain(url: str) -> str:
    raise ValueError(PAGE)


async def coroutine(url: str) -> str:
    raise ValueError(PAGE)


def generator(url: str) -> Iterator[str]:
    yield "loading"
    raise ValueError(PAGE)


async def async_generator(url: str) -> AsyncIterator[str]:
    yield "loading"
    raise ValueError(PAGE)


def awaitable(url: str) -> Any:
    return coroutine(url)


async def use(result: Any) -> None:
    if hasattr(result, "__await__"):
        await result
    elif hasattr(result, "__aiter__"):
        async for _ in result:
            pass
    else:
        list(result)


@pytest.mark.parametrize("tool", [plain, coroutine, generator, async_generator, awaitable])
def test_the_text_of_an_error_is_labelled(tool: Callable[..., Any]) -> None:
    there, sleuth = scene(), watching()

    async def work() -> None:
        await use(sleuth.track(tool, name="fetch_url")("x"))

    with pytest.raises(ValueError, match="IMPORTANT"):
        asyncio.run(work())
    with pytest.raises(TaintViolationError):
        sleuth.track(there.send_email)(to=FOE, body="rain")
    assert there.sent == []
    assert came_from(sleuth) == ["fetch_url"]


def test_a_refusal_within_a_tool_is_no_output_of_it() -> None:
    """Else the explanation of a refusal would itself become a stranger's text."""
    there, sleuth = scene(), watching()
    send = sleuth.track(there.send_email)

    def read_and_send() -> None:
        send(to=FOE, body="rain")

    sleuth.engine.on_tool_result("fetch_url", PAGE)
    before = sleuth.store.ledger.texts
    with pytest.raises(TaintViolationError):
        sleuth.track(read_and_send)()
    assert before
    assert sleuth.store.ledger.texts == before


def test_a_default_of_the_tool_is_its_authors_and_a_value_that_was_given_is_judged() -> None:
    policy = Policy(
        mode=Mode.ENFORCE,
        sources=("read",),
        sinks=(
            SinkRule("pay", (ArgumentRule("to", Role.DESTINATION), ArgumentRule("currency", Role.SELECTOR))),
        ),
    )
    sleuth = Sleuth(policy=policy)
    sleuth.reset("Pay bob@corp.example.")

    def read() -> str:
        return "The price is 80 EUR, payable to bob@corp.example."

    def pay(to: str, currency: str = "EUR") -> str:
        return f"{to} {currency}"

    sleuth.track(read)()
    assert sleuth.track(pay)("bob@corp.example") == "bob@corp.example EUR"
    with pytest.raises(TaintViolationError):
        sleuth.track(pay)("bob@corp.example", currency="EUR")
