"""The bounds of a result: each part of it counts, also one that says nothing."""

from __future__ import annotations

import mcp_types as types
import pytest

from agentserver.mcp.client.listeners import MOST, PARTS, _convert_result
from agentserver.payload.foreign.results import ToolResult


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def link(uri: str, name: str) -> types.ResourceLink:
    return types.ResourceLink(type="resource_link", uri=uri, name=name)


def picture(kind: str) -> types.ImageContent:
    return types.ImageContent(type="image", data="", mime_type=kind)


@pytest.mark.parametrize(
    "content",
    [
        [text("")] * (PARTS + 1),
        [picture("")] * (PARTS + 1),
        [text("x" * MOST), text("x")],
        [link("a:", "n" * MOST)],
        [link("a:" + "n" * MOST, "")],
        [picture("m" * (MOST + 1))],
    ],
    ids=["texts", "pictures", "characters", "a name", "an address", "a media type"],
)
def test_a_result_beyond_a_bound_is_refused(content):
    assert _convert_result(content) is None


def test_a_result_within_the_bounds_is_one():
    assert _convert_result([text("")] * PARTS) == ToolResult(text=[""] * PARTS)
