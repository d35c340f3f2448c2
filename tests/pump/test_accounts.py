"""Counters equal the real state, whatever a conversation goes through."""

from __future__ import annotations

from contextlib import contextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import HandlerResponse, TodoUntil
from agentserver.contract import Code
from agentserver.core.blueprint import Limits
from agentserver.core.decide import decisions
from agentserver.core.messages import HandlerFailure
from agentserver.core.state.approvals import Answer as Said
from agentserver.engines.memory import MemoryEngine
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.ports import QuotaError
from agentserver.pump.accounts import Accounts
from tests.core.paper import Answer, Ask, LateHandler, Paper, listener, rules
from tests.pump.desk import desk, hang_forever, wait_until

pytestmark = pytest.mark.anyio

respond = HandlerResponse.respond
FAN = [HandlerResponse(Ask("x" * n), "b") for n in range(3)]
HOLDING = [HandlerResponse(TodoUntil("Answer", "both", None, 2, hold=True), "system.todo"), *FAN[:2]]
RESULTS = [
    None,
    respond(Answer("done")),
    FAN,
    HOLDING,
    HandlerResponse(Ask("again"), "a"),
    HandlerResponse(Ask("please"), "c"),
    HandlerResponse(Ask("?"), "nobody"),
    FAN * 20,
    LateHandler("late"),
]


@contextmanager
def arriving_message(accounts, principal, size):
    """A message on its way in."""
    accounts.arrive(principal, size)
    yield
    accounts.finish_arrival(principal, size)


def count_state(conversation):
    """What there is of a conversation, looked at afresh."""
    nodes = conversation.tree.nodes.values()
    waiting = [one for node in nodes for one in node.list_waiting()]
    in_hand = len(waiting) - len(conversation.approvals())
    return (in_hand, sum(len(one.message) for one in waiting), 1), in_hand


@given(st.data())
def test_counters_equal_the_real_state_after_every_step(data):
    guards = (PeersGuard(), ApprovalGuard({"c": {}}))
    named = (listener("a", "b", "c", retries=1), listener("b", "a", "c"), listener("c"))
    shop = rules(*named, guards=guards, messages=60, refusals=2)

    def act(call):
        result = data.draw(st.sampled_from(RESULTS))
        if isinstance(result, LateHandler):
            raise result
        return result

    paper = Paper(shop, dict.fromkeys("abc", act))
    accounts, seen = Accounts(shop.blueprint.limits), 0
    accounts.open(paper.conversation.id, "console")
    for _ in range(data.draw(st.integers(1, 15))):
        verb = data.draw(st.sampled_from(["say", "step", "step", "step", "decide"]))
        if verb == "decide" and paper.conversation.approvals():
            paper.decide(data.draw(st.sampled_from([Said.ONCE, Said.DENY])))
        elif verb == "step" and paper.waiting:
            paper.step(data.draw(st.integers(0, len(paper.waiting) - 1)))
        else:
            paper.say(Ask("hello"), "a")
        for outcome in paper.outcomes[seen:]:
            accounts.book(outcome)
        seen = len(paper.outcomes)
        assert (accounts.counts_of("console"), accounts.pending) == count_state(paper.conversation)
        again = Accounts(shop.blueprint.limits)
        again.recount(paper.conversation)
        assert (again.counts_of("console"), again.pending) == count_state(paper.conversation)
    accounts.book(decisions.close(paper.conversation, shop, paper.moment(), "enough"))
    assert (accounts.counts_of("console"), accounts.pending) == ((0, 0, 1), 0)
    accounts.close(paper.conversation.id)
    assert accounts.counts_of("console") == (0, 0, 0)
    assert accounts.idle.is_set()


def test_a_principal_counts_towards_the_queue_with_at_most_its_own_share():
    accounts = Accounts(Limits(queue=4, principal_queue=2))
    with (
        arriving_message(accounts, "flood", 1),
        arriving_message(accounts, "flood", 1),
        arriving_message(accounts, "flood", 1),
    ):
        assert not accounts.admits("flood", 1)
        assert accounts.admits("other", 1)
        with arriving_message(accounts, "other", 1), arriving_message(accounts, "other", 1):
            assert not accounts.admits("third", 1)
        assert accounts.admits("third", 1)


def test_bytes_are_bounded_and_a_single_message_always_fits():
    accounts = Accounts(Limits(principal_bytes=100))
    assert accounts.admits("p", 1000)
    with arriving_message(accounts, "p", 60):
        assert accounts.admits("p", 40)
        assert not accounts.admits("p", 41)
        assert accounts.admits("q", 41)
    assert accounts.counts_of("p") == (0, 0, 0)


async def test_a_flooding_principal_is_busy_and_another_is_served():
    gate = anyio.Event()

    async def work(payload, metadata):
        if payload.text == "flood":
            await gate.wait()
        return respond(Answer("x"))

    async with desk((listener("a"), work), queue=64, principal_queue=8, concurrency=64) as d:
        results = []

        async def one():
            results.append(await d.ask(Ask("flood")))

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(one)
            await wait_until(lambda: len(results) == 92)
            assert {reply.code for reply in results} == {"busy"}
            stranger = await d.pump.open("stranger")
            gate.set()
            assert d.decode(await stranger.ask(d.markup(Ask("hi")), "a")) == Answer("x")


async def test_a_fan_out_beyond_the_queue_makes_nobody_else_busy():
    gate = anyio.Event()

    async def send_many(payload, metadata):
        return (
            [HandlerResponse(Ask("x"), "b") for _ in range(100)]
            if payload.text == "flood"
            else respond(Answer("x"))
        )

    async def slow(payload, metadata):
        await gate.wait()

    async with desk((listener("a", "b"), send_many), (listener("b"), slow), queue=16, principal_queue=8) as d:
        handle = await d.open()
        await d.send(handle, Ask("flood"))
        await wait_until(lambda: d.pump._accounts.pending == 100)
        assert (await d.ask(Ask("more"))).code == "busy"
        stranger = await d.pump.open("stranger")
        assert d.decode(await stranger.ask(d.markup(Ask("hi")), "a")) == Answer("x")
        gate.set()


async def test_a_principal_has_only_so_many_conversations_open():
    async with desk((listener("a"), lambda *_: None), principal_conversations=2) as d:
        first, _ = await d.open(), await d.open()
        with pytest.raises(QuotaError, match="principal_conversations"):
            await d.open()
        await d.pump.open("another")
        await first.close()
        await d.open()


@pytest.mark.parametrize("key", [None, "mine"])
async def test_a_principal_may_have_fewer_conversations_than_others(key):
    async with desk((listener("a"), lambda *_: None), principal_conversations=2) as d:
        first = await d.pump.open("ann", maximum=1)
        with pytest.raises(QuotaError, match="as many as this principal may have"):
            await d.pump.open("ann", key, maximum=1)
        with pytest.raises(QuotaError):
            await d.pump.open("eve", key, maximum=0)
        await d.pump.open("bob", key, maximum=1)
        await first.close()
        again = await d.pump.open("ann", key, maximum=1)
        if key is not None:
            assert (await d.pump.open("ann", key, maximum=1)).id == again.id


async def test_nobody_has_more_conversations_than_the_server_allows():
    async with desk((listener("a"), lambda *_: None), principal_conversations=1) as d:
        await d.pump.open("ann", maximum=5)
        with pytest.raises(QuotaError, match="principal_conversations"):
            await d.pump.open("ann", maximum=5)


async def test_a_restart_counts_again():
    engine = MemoryEngine()

    async with desk((listener("a"), hang_forever), engine=engine, drain=0.0) as d:
        handle, idle = await d.open(), await d.open()
        for _ in range(3):
            await d.send(handle, Ask("x"))
        await d.send(idle, Ask("nobody"), "nobody")
        before = d.pump._accounts.counts_of("console")
    async with desk((listener("a"), hang_forever), engine=engine, drain=0.0) as d:
        assert d.pump._accounts.counts_of("console") == before
        assert before[0::2] == (3, 2)


def test_a_failed_delivery_is_counted_once():
    shop = rules(listener("a"))
    paper = Paper(shop, {"a": lambda call: None})
    paper.say(Ask("x"), "a")
    (delivery,) = paper.waiting
    accounts = Accounts(shop.blueprint.limits)
    accounts.recount(paper.conversation)
    finished = paper.invoke(delivery)._replace(result=HandlerFailure(Code.INTERNAL))
    for _ in range(2):
        accounts.book(paper.conclude(finished))
    assert accounts.counts_of("console") == (0, 0, 1)
