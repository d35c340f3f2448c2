"""Listening to one agent: the calls that its events complete, and their order."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentserver.handoff.managed import stream
from agentserver.handoff.managed.stream import AgentStream
from agentserver.handoff.requests import RequestRefusal

RAW = json.dumps({"type": "handoff_request", "target_agent": "a", "payload": {"intent": "i", "params": {}}})


def reasons(attempts):
    return [each.request.fault for each in attempts]


def test_an_event_is_had_once_and_memory_is_bounded(monkeypatch):
    listener = AgentStream()
    assert listener.note_new("a")
    assert not listener.note_new("a")
    monkeypatch.setattr(stream, "SEEN", 2)
    assert listener.note_new("b")
    assert listener.note_new("c")
    assert listener.note_new("a")


def test_a_call_carries_its_id():
    (attempt,) = AgentStream().call("toolu_1", {"target_agent": "a", "intent": "i", "params": {}}, "{}")
    assert (attempt.call, attempt.request.intent) == ("toolu_1", "i")


def test_a_preview_without_its_message_replaces_it():
    listener = AgentStream()
    assert listener.preview("m1", RAW[:20]) == ()
    assert reasons(listener.preview("m2", RAW[20:])) == [None]
    assert listener.turn_ended() == ()


def test_a_preview_that_never_ends_is_reported_with_its_turn():
    listener = AgentStream()
    listener.preview("m1", RAW[:-1])
    assert reasons(listener.turn_ended()) == [RequestRefusal.INVALID_JSON]


def test_a_message_that_differs_from_its_preview_counts():
    listener = AgentStream()
    listener.preview("m1", RAW[:30])
    assert reasons(listener.message("m1", "no request")) == []
    assert listener.turn_ended() == ()


def test_another_message_ends_a_preview():
    listener = AgentStream()
    assert reasons(listener.preview("m1", RAW)) == [None]
    assert reasons(listener.message("m2", RAW)) == [None]


@given(st.lists(st.integers(0, len(RAW) * 2), max_size=5), st.integers(0, 6))
def test_previews_change_no_request(cuts, shown):
    text = f"{RAW} {RAW}"
    marks = sorted({0, *cuts, len(text)})
    pieces = [text[a:b] for a, b in pairwise(marks)]
    listener = AgentStream()
    found = [attempt for piece in pieces[:shown] for attempt in listener.preview("m", piece)]
    found += listener.message("m", text)
    assert reasons([*found, *listener.turn_ended()]) == [None, None]
