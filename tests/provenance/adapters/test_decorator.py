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


class RemoteError(Exception):
    def __init__(self, body: str) -> None:
        super().__init__(500)
        self.body = body


class TerseError(Exception):
    def __str__(self) -> str:
        return "it failed"


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raise_with_a_cause() -> None:
    raise RuntimeError("it failed") from ValueError(PAGE)


def raise_with_a_note() -> None:
    error = ValueError("it failed")
    error.add_note(PAGE)
    raise error


@pytest.mark.parametrize(
    "error",
    [
        RemoteError(PAGE),
        TerseError(PAGE),
        MuteError(PAGE),
        ExceptionGroup("several", [ValueError(PAGE)]),
        raise_with_a_cause,
        raise_with_a_note,
    ],
)
def test_all_that_a_traceback_of_an_error_shows_is_labelled(error: Any) -> None:
    there, sleuth = scene(), watching()

    def fail(url: str) -> str:
        if isinstance(error, Exception):
            raise error
        return str(error())

    with pytest.raises(Exception):  # noqa: B017 - of several kinds
        sleuth.track(fail, name="fetch_url")("x")
    with pytest.raises(TaintViolationError) as refused:
        sleuth.track(there.send_email)(to=FOE, body="rain")
    assert refused.value.violation.reason == "destination from untrusted text"


def test_a_generator_gets_sent_values_and_errors_and_the_last_value_is_labelled() -> None:
    there, sleuth, got = scene(), watching(), []

    def fetch_url(url: str) -> Any:
        try:
            got.append((yield "loading"))
            yield "more"
        except KeyError:
            yield "again"
        finally:
            got.append("closed")
        return PAGE

    chunks = sleuth.track(fetch_url)("x")
    assert (next(chunks), chunks.send("fast"), chunks.throw(KeyError())) == ("loading", "more", "again")
    with pytest.raises(StopIteration) as end:
        next(chunks)
    assert (got, end.value.value) == (["fast", "closed"], PAGE)
    with pytest.raises(TaintViolationError):
        sleuth.track(there.send_email)(to=FOE, body="rain")


def test_an_async_generator_is_closed_with_the_one_that_watches_it() -> None:
    got: list[Any] = []

    async def fetch_url(url: str) -> Any:
        try:
            got.append((yield "loading"))
            yield "more"
        finally:
            got.append("closed")

    async def work() -> None:
        chunks = watching().track(fetch_url)("x")
        assert (await anext(chunks), await chunks.asend("fast")) == ("loading", "more")
        await chunks.aclose()
        assert got == ["fast", "closed"]

    asyncio.run(work())


class Outbox:
    def __init__(self) -> None:
        self.connection = iter([])

    def send(self, to: str, body: str) -> str:
        return to

    def post(this, to: str, body: str) -> str:
        return to


def test_only_the_object_of_a_method_is_no_argument() -> None:
    sleuth = Sleuth(policy=Policy(mode=Mode.ENFORCE, sources=("fetch",), sinks=(SinkRule("send"),)))

    def send(self: str, **extra: str) -> str:
        return self

    def refuse(call: Callable[..., Any], *args: str, **kwargs: str) -> None:
        with pytest.raises(TaintViolationError):
            call(*args, **kwargs)

    for method in (Outbox.send, Outbox.post):
        sleuth.reset("mail the report to boss@corp.example")
        sleuth.engine.on_tool_result("fetch", PAGE)
        tool = sleuth.track(method, name="send")
        assert tool(Outbox(), "boss@corp.example", "x") == "boss@corp.example"
        refuse(tool, Outbox(), FOE, "x")
    refuse(sleuth.track(send), FOE)
    refuse(sleuth.track(lambda body, **extra: body, name="send"), "x", self=FOE)


@pytest.mark.parametrize("first", ["tracked", "static"])
def test_an_object_that_a_static_method_gets_is_an_argument(first: str) -> None:
    there, sleuth = scene(), watching()

    class Mail:
        def __init__(self, to: str) -> None:
            self.to = to

        def deliver(mail: Any) -> str:
            return there.send_email(mail.to, "rain")

        if first == "tracked":
            deliver = staticmethod(sleuth.track(deliver, name="send_email"))
        else:
            deliver = sleuth.track(staticmethod(deliver), name="send_email")

    sleuth.track(lambda url: PAGE, name="fetch_url")("x")
    with pytest.raises(TaintViolationError):
        Mail.deliver(Mail(FOE))
    assert there.sent == []
