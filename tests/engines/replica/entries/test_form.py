"""Entries as bytes: what is written is read again, and no bytes are a traceback."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentserver.core.messages import Cancelling, Closing, Outside, RequestKey
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.principals import Principal, Trust
from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.replica.entries import form
from agentserver.engines.replica.entries.acts import (
    Departing,
    Discarding,
    Done,
    Forgetting,
    Handing,
    Naming,
    Setting,
)
from agentserver.engines.replica.entries.form import UnreadableEntry
from agentserver.engines.sqlite.rows import Left
from agentserver.engines.sqlite.steps.step import StepMaker
from agentserver.ports.sharing import Arrival, Fate
from tests.fuzzing import examples


def steps():
    """The steps of a conversation that is opened, goes on, and is closed."""
    sample, maker, found = SampleConversation(), StepMaker(), []
    said = sample.said(sample.opened(), "1")
    answered = sample.answered(said.conversation, said.ready[0])
    for outcome in (said, answered, sample.closed(answered.conversation)):
        encoded = maker.encode(outcome)
        step = maker.step(encoded)
        maker.kept(encoded, step)
        found.append(step)
    return found


ARRIVALS = [
    Outside(b"\xff<a/>", "r", "b", RequestKey("n", "c")),
    Outside(b"<a/>", "r"),
    Cancelling("r", "ann"),
    Closing("over"),
    ApprovalAnswer("a", "d", Answer.DENY, "ann", undone=True),
    None,
]
ACTS = [
    *steps(),
    Setting("c", "why", 1.5),
    *[Departing(left) for left in (Left("c"), Left("c", 1, 2), Left("c", 1, 2, before=True))],
    Discarding("d"),
    Naming("n", "c", 2.0),
    Forgetting(3.0),
    *[Handing(Arrival("i", "c", "ann", what, Principal("ann", Trust.STRANGER, ("x",)))) for what in ARRIVALS],
    Handing(Arrival("i", "c", None, None)),
    Done("i", Fate("no", "r", 3, again=True)),
]


def plain(act):
    """An act with its sequences as tuples."""
    return tuple(tuple(one) if isinstance(one, list) else one for one in act)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: type(act).__name__)
def test_an_act_is_read_as_it_was_written(act):
    (found,) = form.load(form.dump([act]))
    assert type(found) is type(act)
    assert plain(found) == plain(act)


def test_several_acts_stay_in_their_order():
    found = form.load(form.dump(ACTS))
    assert [type(one) for one in found] == [type(one) for one in ACTS]
    assert form.dump(found) == form.dump(ACTS)


WHOLE = form.dump(ACTS)


@given(st.binary(max_size=200))
@example(b"AGE1" + struct.pack("<I", 2**31))
@example(struct.pack("<4sI", b"AGE1", 13) + b'[[["step"]],[]]')
def test_no_bytes_are_a_traceback(data):
    found = form.load(data)
    assert isinstance(found, UnreadableEntry | tuple)


@settings(max_examples=examples(300))
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_neither_is_an_entry_of_which_a_byte_was_changed(place, byte):
    data = bytearray(WHOLE)
    data[place] = byte
    assert isinstance(form.load(bytes(data)), UnreadableEntry | tuple)


@given(st.integers(0, len(WHOLE) - 1))
def test_an_entry_that_was_cut_is_none(size):
    assert isinstance(form.load(WHOLE[:size]), UnreadableEntry)


def test_an_entry_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(form, "LARGEST", 10)
    assert "may be read" in form.load(WHOLE).why


def test_one_of_another_version_says_so():
    assert form.load(b"AGE9" + WHOLE[4:]) == form.UnreadableEntry("it is of another version", later=True)
    assert form.load(b"XYZ1" + WHOLE[4:]) == form.UnreadableEntry("it is of another version", later=False)
