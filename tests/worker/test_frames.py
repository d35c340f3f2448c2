"""Frames: whatever bytes come, they are a frame or a refusal, and never more than one frame is held."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.worker.frames import (
    HEAD,
    CancelFrame,
    CompleteFrame,
    FailedFrame,
    FrameError,
    FrameReader,
    LoggedFrame,
    ReadyFrame,
    ReturnedFrame,
    SaidFrame,
    WordsFrame,
    pack,
)

LONGEST = 1000
FRAMES = [
    ReadyFrame(),
    CancelFrame(7),
    FailedFrame(1, "no", ["name: is missing"]),
    ReturnedFrame(1, [SaidFrame(None, True, "<a/>")], {"x": None}, [LoggedFrame("y", 1, ["<y/>"])], ["t"]),
    CompleteFrame(1, 2, "m", [WordsFrame("user", "hi", [("1", "t", "{}")], "", "")], "a", ["{n}a"], None, 2),
]


def fed(reader, data):
    """The frames that a stream holds, read as the two ends read it."""
    found, at = [], 0
    while at < len(data):
        piece = data[at : at + reader.wanted]
        at += len(piece)
        frame = reader.feed(piece)
        if frame is not None:
            found.append(frame)
    return found


def framed(data):
    return len(data).to_bytes(HEAD, "big") + data


def test_frames_come_out_as_they_went_in():
    assert fed(FrameReader(LONGEST), b"".join(map(pack, FRAMES))) == FRAMES


@given(data=st.binary(max_size=300))
def test_any_bytes_are_frames_or_refused(data):
    for stream in (data, framed(data)):
        try:
            fed(FrameReader(LONGEST), stream)
        except FrameError:
            continue


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["kind", "call", "said", "detail"]) | st.text(), inner)
    ),
    max_leaves=8,
)


@given(value=JSON)
def test_any_json_is_a_frame_or_refused(value):
    try:
        fed(FrameReader(1 << 20), framed(json.dumps(value).encode("utf-8", "surrogatepass")))
    except FrameError:
        return


def test_a_frame_that_is_too_long_is_refused_by_its_head():
    reader = FrameReader(LONGEST)
    with pytest.raises(FrameError, match="4294967295"):
        reader.feed(b"\xff" * reader.wanted)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b'{"kind": "returned"}',
        b'{"kind": "cancel", "call": "1"}',
        b'{"kind": "cancel", "call": 1.5}',
        b'{"kind": "cancel", "call": true}',
        b'{"kind": "cancel", "call": 1, "more": 1}',
        b'{"kind": "failed", "call": 1, "detail": "\\ud800", "faults": []}',
        b"[" * 900,
        b"\xff",
    ],
)
def test_what_fits_no_shape_is_refused(text):
    with pytest.raises(FrameError):
        fed(FrameReader(LONGEST), framed(text))


@given(parts=st.lists(st.sampled_from(FRAMES), max_size=4))
def test_no_more_than_one_frame_is_held(parts):
    reader = FrameReader(LONGEST)
    at, data = 0, b"".join(map(pack, parts))
    while at < len(data):
        assert 1 <= reader.wanted <= LONGEST + HEAD
        piece = data[at : at + reader.wanted]
        at += len(piece)
        reader.feed(piece)
    assert reader.wanted == HEAD
