"""Two organisms under one name are told apart by their listeners; two editions of one are not refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.broker.address import BrokerAddress
from agentserver.engines.nats.listeners import NOTE, objection, words
from agentserver.engines.nats.log import LogOptions, NatsLog
from agentserver.ports import EngineError

NAMES = st.frozensets(st.text("abc.", min_size=1, max_size=3), max_size=5)


@given(NAMES, NAMES)
def test_who_shares_a_listener_or_has_none_is_let_in_and_nobody_else(before, now):
    shares = not before or not now or before & now
    assert bool(objection(words(before), now)) is not bool(shares)


@given(st.text())
def test_what_is_no_note_says_nothing_of_anybody(note):
    assert objection(note, frozenset(["a"])) == "" or note.strip()[0] in '[{"'


def test_the_refusal_names_a_few_of_both_and_the_way_out():
    many = frozenset(f"l{number}" for number in range(7))
    told = objection(words(many), frozenset(["greeter\n"]))
    assert (
        "has the listeners l0, l1, l2, l3, l4 and 2 more, and this one has none of them, but greeter" in told
    )
    assert "\n" not in told
    assert "an engine.nats.name of its own" in told
    assert len(objection(words(frozenset(["x" * 10_000])), many)) < 1000


@pytest.mark.anyio
async def test_another_organism_is_refused_at_the_start_and_an_edition_is_rolled_out(node, tmp_path):
    """It was given conversations, and answered them with dead letters."""
    name = tmp_path.name.replace(".", "_")[:40]

    def server(*listeners):
        address = BrokerAddress(node.url, None, 1, None, "organism.yaml:3: engine.nats")
        return NatsLog(LogOptions(name, address, relaxed=True, listeners=frozenset(listeners)))

    async with server("router", "greeter"), server("greeter", "router") as second:
        with pytest.raises(
            EngineError, match=r"organism.yaml:3: engine.nats: the log is another organism's: .* but buyer"
        ):
            await server("buyer").__aenter__()
        assert await second.noted(NOTE) == words(frozenset(["router", "greeter"]))
        async with server("greeter", "desk"), server():
            pass
        async with server("desk"):
            assert await second.noted(NOTE) == words(frozenset(["desk"]))
            await second.belong(frozenset(["buyer"]))  # a reload
        async with server("buyer"):
            pass
