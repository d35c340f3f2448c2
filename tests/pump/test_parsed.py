"""The parsed payloads that the pump keeps for deliveries."""

from __future__ import annotations

from agentserver import HandlerResponse
from agentserver.pump.parsing import LIMIT, ParsedPayloads
from tests.core.paper import Answer, Ask, Paper, listener, rules


def send_all(*texts):
    """The step in which a listener sends these."""
    paper = Paper(
        rules(listener("a", "b"), listener("b")),
        {"a": lambda call: [HandlerResponse(Ask(text), "b") for text in texts], "b": lambda call: None},
    )
    paper.say(Ask("go"), "a")
    return paper, paper.step()


def test_each_is_taken_once():
    _, outcome = send_all("one", "two")
    kept = ParsedPayloads()
    kept.keep(outcome)
    assert list(kept) == [delivery.id for delivery in outcome.added]
    first = outcome.added[0].id
    assert kept.pop(first, None) is outcome.parsed[first]
    assert kept.pop(first, None) is None


def test_a_large_one_is_not_kept():
    _, outcome = send_all("one", "x" * LIMIT)
    kept = ParsedPayloads()
    kept.keep(outcome)
    assert list(kept) == [outcome.added[0].id]


def test_dropped_messages_are_forgotten():
    paper, outcome = send_all("one", "two")
    kept = ParsedPayloads()
    kept.keep(outcome)
    paper.handlers["b"] = lambda call: HandlerResponse.respond(Answer("x"))
    paper.step()
    kept.forget(outcome.added)
    assert not kept
