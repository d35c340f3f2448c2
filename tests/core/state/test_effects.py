"""What a running handler changes counts when it is committed, and nobody else can change it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import TodoUntil, xmlify
from agentserver.core.messages import Delivery, Effects
from agentserver.core.state.effects import ThreadStorage, ThreadTodos, collect
from agentserver.core.state.logs import NO_LOGS, LogChange, ThreadLog, apply_log_changes
from agentserver.core.state.todos import TodoBook
from agentserver.payload.codec import Codecs
from agentserver.payload.fields.field_table import PayloadError
from agentserver.wire.envelope import Bounds
from tests.core.paper import Ask, Note

CODECS = Codecs([Ask, Note])
NOTE, ASK = CODECS.of(Note).name, CODECS.of(Ask).name


@xmlify
@dataclass
class Basket:
    items: list[str]


def storage(limit=1000, **stored):
    return ThreadStorage({CODECS.of(type(v)).name: CODECS.of(type(v)).encode(v).encode() for v in stored.values()},
                         CODECS, Bounds(bytes=limit), limit)  # fmt: skip


def todos():
    book = TodoBook().watch("t", TodoUntil("Sum"), "done").watch("t", TodoUntil("Other"), "open")
    sum_of = Delivery("d", "c", "r", "t", "o", "b", "a", "{urn:x}Sum", b"", 2)
    return ThreadTodos("t", "a", book.count_notice(sum_of).list_watchers("t"))


def test_a_value_is_stored_under_its_class():
    kept = storage()
    assert kept.get(Note) is None
    assert kept.get(Note, Note("none")) == Note("none")
    kept.set(Note("x"))
    assert kept.get(Note) == Note("x")
    assert kept.get(Ask) is None
    kept.set(Note("y"))
    assert list(kept.changes) == [NOTE]
    assert kept.get(Note) == Note("y")


def test_stored_values_cannot_be_changed_from_outside():
    basket = Basket(["a"])
    kept = ThreadStorage({}, Codecs([Basket]), Bounds(), 1000)
    kept.set(basket)
    basket.items.append("b")
    kept.get(Basket).items.append("c")
    assert kept.get(Basket) == Basket(["a"])


def test_deleting_hides_a_stored_value_and_is_a_change():
    kept = storage(one=Note("x"))
    kept.delete(Note)
    assert kept.get(Note) is None
    assert kept.changes == {NOTE: None}
    kept.set(Note("y"))
    assert kept.get(Note) == Note("y")


def test_the_bound_counts_all_values_together_and_a_replaced_one_once():
    size = len(CODECS.of(Note).encode(Note("x" * 100)))
    kept = storage(limit=2 * size, one=Ask("x" * 100))
    for text in "xyz":
        kept.set(Note(text * 100))
    with pytest.raises(ValueError, match=f"at most {2 * size} bytes"):
        kept.set(Note("x" * 110))
    assert kept.get(Note) == Note("z" * 100)
    kept.delete(Ask)
    kept.set(Note("x" * 110))


def test_the_bound_may_be_reached():
    size = len(CODECS.of(Note).encode(Note("x" * 100)))
    storage(limit=size).set(Note("x" * 100))
    with pytest.raises(ValueError):
        storage(limit=size).set(Note("x" * 101))


@pytest.mark.parametrize("value", [Note("\x00"), Note(None), Note("x" * 2000)])
def test_a_value_that_is_invalid_or_too_large_is_not_kept(value):
    kept = storage()
    with pytest.raises(ValueError):
        kept.set(value)
    assert kept.changes == {}


@pytest.mark.parametrize("value", [42, object(), "text"])
def test_only_payloads_are_kept(value):
    with pytest.raises(PayloadError):
        storage().set(value)


@pytest.mark.parametrize("data", [b"junk", b'<Note xmlns="urn:agentserver:payload:Note:v1"/>'])
def test_a_value_that_no_longer_satisfies_its_schema_is_not_returned(data):
    kept = ThreadStorage({NOTE: data}, CODECS, Bounds(), 1000)
    with pytest.raises(ValueError, match="Note does not satisfy its schema"):
        kept.get(Note)
    kept.set(Note("new"))
    assert kept.get(Note) == Note("new")


# Logs


def log_storage(*values, limit=1000):
    logs = apply_log_changes(
        NO_LOGS, [LogChange(NOTE, 0, tuple(CODECS.of(Note).encode(v).encode() for v in values))]
    )
    return ThreadStorage({}, CODECS, Bounds(bytes=2000), limit, logs)


def test_a_log_has_old_and_appended_entries():
    kept = log_storage(Note("a"))
    assert kept.log(Ask) == ()
    kept.append(Note("b"))
    kept.append(Ask("other"))
    assert kept.log(Note) == (Note("a"), Note("b"))
    assert kept.log(Ask) == (Ask("other"),)
    assert kept.get(Note) is None
    assert [(change.kind, change.dropped, len(change.appended)) for change in kept.logged] == [
        (NOTE, 0, 1),
        (ASK, 0, 1),
    ]


def test_appending_neither_replaces_the_value_nor_becomes_it():
    kept = storage(one=Note("value"))
    kept.append(Note("entry"))
    assert (kept.get(Note), kept.log(Note)) == (Note("value"), (Note("entry"),))
    kept.delete(Note)
    assert (kept.get(Note), kept.log(Note)) == (None, (Note("entry"),))


TRIMS = st.lists(st.one_of(st.integers(0, 9), st.text("ab", max_size=3)), max_size=20)


@given(st.integers(0, 5), TRIMS)
def test_a_log_is_trimmed_to_its_latest_entries_and_counted_as_they_are(there, steps):
    expected = [Note(f"old {number}") for number in range(there)]
    kept = log_storage(*expected)
    for step in steps:
        if isinstance(step, int):
            kept.trim(Note, step)
            expected = expected[max(0, len(expected) - step) :]
        else:
            kept.append(Note(step))
            expected = [*expected, Note(step)]
        assert kept.log(Note) == tuple(expected)
        assert kept.size(Note) == sum(len(CODECS.of(Note).encode(note)) for note in expected)
    assert kept._count_bytes() == sum(len(CODECS.of(Note).encode(note)) for note in expected)
    changes = collect(kept, todos()).logged
    assert [CODECS.of(Note).encode(note).encode() for note in expected] == [
        data for log in apply_log_changes(kept._logs, changes).values() for data in log
    ]


def test_the_bound_counts_entries_and_values_and_a_trim_gives_room_back():
    size = len(CODECS.of(Note).encode(Note("x" * 100)))
    kept = log_storage(Note("x" * 100), limit=3 * size)
    kept.append(Note("y" * 100))
    kept.set(Note("z" * 100))
    for change in (kept.append, kept.set):
        with pytest.raises(ValueError, match=f"at most {3 * size} bytes"):
            change(Note("w" * 101))
    with pytest.raises(ValueError):
        kept.append(Ask(""))
    kept.trim(Note, 1)
    kept.append(Note("w" * 100))
    assert kept.log(Note) == (Note("y" * 100), Note("w" * 100))
    with pytest.raises(ValueError):
        kept.append(Ask(""))


def test_a_log_cannot_be_trimmed_to_fewer_than_no_entries():
    with pytest.raises(ValueError, match="-1"):
        log_storage(Note("a")).trim(Note, -1)


@pytest.mark.parametrize("value", [Note("\x00"), Note("x" * 2000)])
def test_an_entry_that_is_invalid_or_too_large_is_not_kept(value):
    kept = log_storage()
    with pytest.raises(ValueError):
        kept.append(value)
    assert (kept.log(Note), kept.logged) == ((), ())


def test_an_entry_that_no_longer_satisfies_its_schema_is_not_given_out():
    kept = ThreadStorage({}, CODECS, Bounds(), 1000, {NOTE: ThreadLog([b"junk"])})
    with pytest.raises(ValueError, match="Note does not satisfy its schema"):
        kept.log(Note)


def test_a_trim_of_nothing_is_no_change():
    kept = log_storage(Note("a"))
    kept.trim(Note, 1)
    kept.trim(Ask, 0)
    assert collect(kept, ThreadTodos("t", "a", ())) == Effects({})


def test_only_the_running_threads_complete_todos_are_shown():
    own = todos()
    assert [w.watcher_id for w in own.get_raised_for("t", "a")] == ["done"]
    assert own.get_raised_for("t", None) == own.get_raised_for("t", "a")
    assert own.get_raised_for("t2", "a") == own.get_raised_for("t", "b") == ()


def test_a_todo_is_closed_once_and_only_if_it_is_the_threads():
    own = todos()
    assert not own.close("elsewhere")
    assert own.close("open")
    assert own.close("done")
    assert own.close("done")
    assert own.closed == ["open", "done"]
    assert own.get_raised_for("t", "a") == ()


def test_collected_effects_no_longer_change():
    kept, own = storage(), todos()
    assert collect(kept, own) == Effects({})
    kept.set(Note("x"))
    own.close("done")
    effects = collect(kept, own)
    kept.delete(Note)
    own.close("open")
    assert effects.closed == ("done",)
    assert list(effects.stored) == [NOTE]
    assert effects.stored[NOTE]
