"""Frames: whatever bytes come, they are frames or a refusal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.completion import PromptMessage, ToolCall
from agentserver.core.messages import Effects
from agentserver.core.state.logs import LogChange
from agentserver.worker.frames import (
    HEAD,
    CancelFrame,
    CompletionRequestFrame,
    FailedFrame,
    FrameError,
    FrameReader,
    MessageFrame,
    ReadyFrame,
    ReturnedFrame,
    pack,
)

LONGEST = 1000
FRAMES = [
    ReadyFrame(),
    CancelFrame(7),
    FailedFrame(1, "no", ("name: is missing",)),
    ReturnedFrame(
        1, (MessageFrame(None, True, "<a/>"),), Effects({"x": None}, ("t",), (LogChange("y", 1, (b"<y/>",)),))
    ),
    CompletionRequestFrame(
        1, 2, "m", (PromptMessage("user", "hi", (ToolCall("1", "t", "{}"),)),), "a", ("{n}a",), None, 2
    ),
]


def read_frames(reader, data, piece=7):
    """The frames that a stream holds, read as the two ends read it."""
    found = []
    for at in range(0, len(data), piece):
        reader.feed(data[at : at + piece])
        while (frame := reader.take_frame()) is not None:
            found.append(frame)
    return found


def frame_data(data):
    return len(data).to_bytes(HEAD, "big") + data


@pytest.mark.parametrize("trusted", [False, True])
def test_frames_come_out_as_they_went_in(trusted):
    assert read_frames(FrameReader(LONGEST, trusted=trusted), b"".join(map(pack, FRAMES))) == FRAMES


@pytest.mark.parametrize("trusted", [False, True])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_frames_or_refused(trusted, data):
    for stream in (data, frame_data(data)):
        try:
            read_frames(FrameReader(LONGEST, trusted=trusted), stream)
        except FrameError:
            continue


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["kind", "call", "messages", "detail"]) | st.text(), inner)
    ),
    max_leaves=8,
)


@given(value=JSON)
def test_any_json_is_a_frame_or_refused(value):
    try:
        read_frames(FrameReader(1 << 20), frame_data(json.dumps(value).encode("utf-8", "surrogatepass")))
    except FrameError:
        return


def test_a_frame_that_is_too_long_is_refused_by_its_head():
    with pytest.raises(FrameError, match="4294967295"):
        read_frames(FrameReader(LONGEST), b"\xff" * HEAD)


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
        b'{"kind": "returned", "call": 1, "messages": [], "effects": {"stored": {"x": {"base64": "/w=="}}}}',
        b"[" * 900,
        b"\xff",
    ],
)
def test_a_value_of_no_known_shape_is_refused(text):
    with pytest.raises(FrameError):
        read_frames(FrameReader(LONGEST), frame_data(text))


@given(parts=st.lists(st.sampled_from(FRAMES), max_size=4), piece=st.integers(1, 200))
def test_frames_come_out_however_they_are_cut(parts, piece):
    assert read_frames(FrameReader(LONGEST), b"".join(map(pack, parts)), piece) == parts
