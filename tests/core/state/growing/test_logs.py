"""A log is the list of appended entries that were not dropped, and its changes are the additions and removals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.state.logs import (
    COMPACT,
    NO_LOGS,
    LogChange,
    ThreadLog,
    apply_log_changes,
    read_logs,
)

ENTRY = st.binary(max_size=3)
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.lists(ENTRY, max_size=4)), max_size=60)


def change(dropped, appended):
    return LogChange("k", dropped, tuple(appended))


@given(CHANGES)
def test_every_version_lists_the_remaining_entries(changes):
    log, entries, versions = ThreadLog(), [], []
    for dropped, appended in changes:
        log = log.apply(change(dropped, appended))
        entries = entries[dropped:] + appended
        versions.append((log, entries))
    for version, expected in versions:
        assert list(version) == expected == version.list_oldest(len(expected) + 1)
        assert len(version) == len(version.numbers()) == len(expected)
        assert version.size == sum(map(len, expected))


@given(CHANGES, st.data())
def test_additions_and_removals_lead_from_the_earlier_version_to_the_later(changes, data):
    log, versions = ThreadLog(), [ThreadLog()]
    for dropped, appended in changes:
        log = log.apply(change(dropped, appended))
        versions.append(log)
    earlier = data.draw(st.integers(0, len(versions) - 1))
    before, after = versions[earlier], data.draw(st.sampled_from(versions[earlier:]))
    kept = dict(zip(before.numbers(), before, strict=True))
    for number, entry in after.find_diff(before).items():
        if entry is None:
            del kept[number]
        else:
            assert number not in kept
            kept[number] = entry
    assert kept == dict(zip(after.numbers(), after, strict=True))
    assert list(after.find_diff(None).values()) == list(after)


def test_two_that_are_made_from_one_do_not_disturb_each_other():
    log = ThreadLog([b"a"])
    one, two = log.apply(change(0, [b"b"])), log.apply(change(0, [b"c"]))
    assert (list(log), list(one), list(two)) == ([b"a"], [b"a", b"b"], [b"a", b"c"])


def test_a_log_that_is_cut_repeatedly_stays_as_small_as_its_content():
    log = ThreadLog()
    for number in range(1000):
        log = log.apply(change(int(number >= 10), [b"%d" % number]))
    assert list(log) == [b"%d" % number for number in range(990, 1000)]
    assert len(log.shared) <= 10 + COMPACT + 1
    assert log.numbers() == range(990, 1000)


def test_they_are_equal_by_their_entries_and_the_numbers_of_these():
    log = ThreadLog([b"a", b"b"]).apply(change(1, []))
    assert log == ThreadLog([b"b"], 1)
    assert hash(log) == hash(ThreadLog([b"b"], 1))
    assert log != ThreadLog([b"b"])
    assert log != ThreadLog([b"c"], 1)
    assert log != [b"b"]
    assert repr(log) == "ThreadLog([b'b'], first=1)"


def test_an_emptied_log_disappears():
    logs = apply_log_changes(NO_LOGS, [LogChange("k", 0, (b"x",)), LogChange("l", 3, ())])
    assert logs == {"k": ThreadLog([b"x"])}
    assert apply_log_changes(logs, [LogChange("k", 1, ())]) == NO_LOGS
    assert apply_log_changes(logs, [LogChange("k", 1, (b"y",))]) == {"k": ThreadLog([b"y"], 1)}


def test_logs_are_read_from_their_entries_in_any_order():
    assert read_logs({"k": {11: b"b", 9: b"z", 10: b"a"}}) == {"k": ThreadLog([b"z", b"a", b"b"], 9)}
    assert read_logs({}) is NO_LOGS


@pytest.mark.parametrize("missing", [1, 2])
def test_a_log_with_a_gap_is_not_read(missing):
    entries = {number: b"x" for number in range(4) if number != missing}
    with pytest.raises(ValueError, match="entries of the log k are missing"):
        read_logs({"k": entries})
