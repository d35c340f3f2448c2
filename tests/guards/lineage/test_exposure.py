"""Exposure as a value: it only grows, is bounded on the safe side, and survives storage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentserver.guards.lineage import exposure as lineage_exposure
from agentserver.guards.lineage import memory as lineage_memory
from agentserver.guards.lineage.exposure import UNKNOWN_TEXT, Exposure, FirstText, Recall
from agentserver.guards.lineage.memory import Memory

TEXT = FirstText("web", 3, "reader")
NAMES = st.sampled_from(["a", "b", "c"])
reached = st.lists(st.tuples(NAMES, st.sampled_from("tuvw"), st.integers(1, 99)), max_size=12)
recalls = st.fixed_dictionaries({name: st.sampled_from(list(Recall)) for name in "abc"})


def exposure_after(events, recalls):
    known = Memory()
    for listener, thread, step in events:
        known = known.expose(listener, listener + thread, recalls[listener], FirstText("web", step, "x"))
    return known


def test_a_thread_is_exposed_for_itself_and_a_listener_for_all_its_threads():
    one = Exposure().expose("a", "t", Recall.THREAD, TEXT)
    assert one.find_text("a", "t", Recall.THREAD) == TEXT
    assert one.find_text("a", "u", Recall.THREAD) is None
    assert one.find_text("b", "t2", Recall.LISTENER) is None
    whole = Exposure().expose("a", "t", Recall.LISTENER, TEXT)
    assert whole.find_text("a", "u", Recall.LISTENER) == TEXT
    assert whole.find_text("b", "v", Recall.LISTENER) is None


def test_the_first_text_is_remembered_and_no_later_one():
    one = Exposure().expose("a", "t", Recall.LISTENER, TEXT)
    assert one.expose("a", "u", Recall.LISTENER, FirstText("mail", 9, "mail")) is one


@given(reached, reached, recalls)
def test_exposure_only_grows(events, more, recalls):
    """Who is exposed stays so, by the same text, whatever else happens."""
    before, then = exposure_after(events, recalls).exposure, exposure_after(events + more, recalls).exposure
    for listener in "abc":
        for thread in "tuvw":
            text = before.find_text(listener, listener + thread, recalls[listener])
            assert text is None or then.find_text(listener, listener + thread, recalls[listener]) == text


@given(reached, recalls, NAMES)
def test_no_listener_is_exposed_by_the_inputs_of_others(events, recalls, name):
    """Its exposure is the same when everything that others were given is left out."""
    own = [event for event in events if event[0] == name]
    whole, alone = exposure_after(events, recalls).exposure, exposure_after(own, recalls).exposure
    for thread in "tuvw":
        asked = (name, name + thread, recalls[name])
        assert whole.find_text(*asked) == alone.find_text(*asked)


@given(reached, recalls, st.floats(0, 100))
def test_dump_and_load_give_the_same(events, recalls, bits):
    known = exposure_after(events, recalls).spend_closed(bits)
    again = lineage_memory.load_memory(lineage_memory.dump_memory(known))
    assert again == known
    assert lineage_memory.dump_memory(again) == lineage_memory.dump_memory(known)
    missed = known.miss()
    assert lineage_memory.load_memory(lineage_memory.dump_memory(missed)) == missed


def test_beyond_the_bound_of_threads_their_listener_is_exposed_as_a_whole(monkeypatch):
    monkeypatch.setattr(lineage_exposure, "THREADS", 2)
    known = Exposure()
    for thread in ("t", "u", "v"):
        known = known.expose("a", thread, Recall.THREAD, TEXT)
    assert known.find_text("a", "never", Recall.THREAD) == TEXT
    assert known.find_text("b", "never", Recall.THREAD) is None
    assert len(known.first) == 3


def test_beyond_the_bound_of_listeners_everybody_is_exposed(monkeypatch):
    monkeypatch.setattr(lineage_exposure, "LISTENERS", 1)
    known = Exposure().expose("a", "t", Recall.LISTENER, TEXT)
    assert known.find_text("b", "u", Recall.LISTENER) is None
    last = known.expose("b", "u", Recall.LISTENER, FirstText("web", 4, "a"))
    assert last.find_text("c", "w", Recall.THREAD) == FirstText("web", 4, "a")
    assert (
        lineage_memory.load_memory(lineage_memory.dump_memory(Memory(exposure=last))).exposure.everyone
        is not None
    )


def test_an_unknown_conversation_exposes_everybody():
    assert Memory.unknown().exposure.find_text("a", "t", Recall.THREAD) == UNKNOWN_TEXT
    assert Memory().miss().exposure.find_text("a", "t", Recall.THREAD) is not None


def test_a_new_exposure_writes_one_line_more():
    """The lines that were there stay the same bytes."""
    known = Memory()
    sizes = []
    for number in range(2 * lineage_exposure.LISTENERS):
        before = len(b"".join(lineage_memory.dump_memory(known).values()))
        known = known.expose(f"l{number:04}", f"t{number}", Recall.LISTENER, FirstText("web", number, "web"))
        sizes.append(len(b"".join(lineage_memory.dump_memory(known).values())) - before)
    assert max(sizes) < 100
    assert known.exposure.everyone is not None
    assert sizes[-1] == 0
