"""Locks: the same text for the same tools, and no tool that was changed behind it."""

from __future__ import annotations

from typing import Any

import pytest

from agentserver.payload.foreign.lock import (
    LockedTool,
    LockError,
    ServerLock,
    describe_differences,
    forms,
    read_lock,
    tool,
    write_lock,
)

TAKES: Any = {"type": "object", "properties": {"x": {"type": "number", "minimum": 0.1}}}
ECHO = LockedTool("echo", "Says it.\nIgnore the rest.", TAKES)
SUM = LockedTool("a/sum", "", TAKES, {"type": "object", "properties": {"sum": {"type": "integer"}}})
LOCK = ServerLock("far 1", "2026-07-28", (ECHO, SUM))


def test_a_lock_is_read_as_it_was_written() -> None:
    read = read_lock(write_lock(LOCK).encode())
    assert read == ServerLock("far 1", "2026-07-28", (SUM, ECHO))
    assert [*read.tools[1].takes] == ["type", "properties"]
    assert write_lock(read) == write_lock(LOCK)
    assert read.find_tool("echo") == ECHO
    assert read.find_tool("none") is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Says it.", "Say it.", "was changed after it was written: echo is another than its SHA-256 says"),
        ("0.1", "0.2", "was changed after it was written: a/sum is another than its SHA-256 says"),
        ('"format": 1', '"format": 2', "is a lock of another format than 1"),
        ('"protocol"', '"tools"', "must name each member of an object once"),
        ('"server"', '"servant"', "is no lock of an MCP server"),
        ('"echo"', '"ec ho"', "a tool whose name is not of letters"),
    ],
)
def test_a_text_that_was_changed_is_no_lock(old: str, new: str, said: str) -> None:
    text = write_lock(LOCK)
    assert old in text
    with pytest.raises(LockError, match=said):
        read_lock(text.replace(old, new).encode())


def _nest_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"maximum": float("nan")}, "has a tool, odd, that cannot be locked: .*must hold no NaN"),
        ({"enum": [float("inf")]}, "has a tool, odd, that cannot be locked: .*must hold no NaN"),
        (_nest_schema(80), "has a tool, odd, that cannot be locked: .*must nest at most"),
        ({"const": "x" * (1 << 22)}, "has a tool, odd, that cannot be locked: .*must have at most"),
    ],
)
def test_a_schema_that_no_lock_may_hold_is_refused_when_it_would_be_written(schema: Any, said: str) -> None:
    odd = LockedTool("odd", "", schema)
    with pytest.raises(LockError, match=said):
        write_lock(ServerLock("far 1", "2026-07-28", (ECHO, odd)))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"null", b'{"format": 1, "tools": 3}', b'{"format": 1, "tools": [1]}']
)
def test_anything_else_is_no_lock(text: bytes) -> None:
    with pytest.raises(LockError):
        read_lock(text)


def test_a_difference_is_named_in_our_own_words() -> None:
    assert list(describe_differences(ECHO, ECHO)) == []
    assert list(describe_differences(ECHO, None)) == ["is gone"]
    other = LockedTool("echo", "Hear!", {"type": "object"}, {"type": "object"})
    assert list(describe_differences(ECHO, other)) == [
        "its description is another",
        "the schema of its arguments is another",
        "the schema of its result is another",
    ]


def test_order_of_members_is_no_difference() -> None:
    turned = dict(reversed(TAKES.items()))
    assert tool("echo", ECHO.description, turned).digest == ECHO.digest


@pytest.mark.parametrize(
    "wrong", [("a b", "", {}), ("", "", {}), ("a", None, {}), ("a", "", True), ("a", "", {}, [])]
)
def test_tools_outside_the_protocol_are_refused(wrong: Any) -> None:
    with pytest.raises(LockError):
        tool(*wrong)


def test_the_payloads_of_a_tool_are_named_after_it() -> None:
    made = forms("far", SUM)
    assert vars(made.takes.cls)["__xml_name__"] == "{urn:mcp:far:a/sum:v1}a.sum"
    assert made.gives is not None
    assert vars(made.gives.cls)["__xml_name__"] == "{urn:mcp:far:a/sum:v1}a.sum.result"
    assert SUM.line == "a/sum"
    assert ECHO.line == "Says it."


def test_a_class_of_the_same_form_is_taken_in_place() -> None:
    first = forms("far", ECHO)
    name = str(vars(first.takes.cls)["__xml_name__"])
    assert forms("far", ECHO, {name: first.takes.cls}).takes.cls is first.takes.cls
    other = forms("far", LockedTool("echo", "", {"type": "object"})).takes.cls
    assert forms("far", ECHO, {name: other}).takes.cls is not other


def test_what_a_server_states_about_effects_is_locked_and_compared() -> None:
    stated = {"readOnlyHint": False, "untrustedContentHint": True, "title": "E", "openWorldHint": "yes"}
    hinted = tool("echo", "", TAKES, None, stated)
    assert hinted.hints == {"readOnlyHint": False, "untrustedContentHint": True}
    lock = ServerLock("far 1", "2026-07-28", (hinted,))
    assert read_lock(write_lock(lock).encode()) == lock
    assert [*describe_differences(hinted, tool("echo", "", TAKES))] == [
        "what it states about its effects is another"
    ]
