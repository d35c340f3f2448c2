"""Streams of server-sent events: where each ends, whatever the pieces, and how long it may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.foreign_json.bodies import EventCutter, extract_data

LINES = st.lists(
    st.sampled_from(["data: a", "data:b", "id: 1", ": c", "event: message"]), min_size=1, max_size=4
)


@given(st.lists(LINES, max_size=5), st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 30))
def test_events_are_the_same_however_the_stream_is_cut(events, end, size):
    texts = [end.join(lines) + end + end for lines in events]
    stream = "".join(texts).encode()
    cutter = EventCutter(1000)
    pieces = (stream[at : at + size] for at in range(0, len(stream), size))
    found = [extract_data(event) for piece in pieces for event in cutter.feed(piece)]
    expected = ["\n".join(line[5:].strip() for line in lines if line.startswith("data:")) for lines in events]
    assert [each for each in found if each] == [each.encode() for each in expected if each]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_that_does_not_end_is_refused_once_it_is_too_long(size):
    cutter, taken = EventCutter(100), 0
    with pytest.raises(ValueError, match="more than 100 bytes"):
        for _ in range(1000):
            taken += size
            list(cutter.feed(b"x" * size))
    assert taken <= 100 + size
