"""The lines of an overview.

Owns the arrangement. Pure: a value of ``overview.Overviews`` in, lines out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from agentserver.characters.printing import format_amount
from agentserver.trace.terminal import Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.trace.terminal import Line

ROWS = 10
"""Rows of a part that are shown; the others are counted."""


def lines(told: Mapping[str, Any]) -> Iterator[Line]:
    """An overview as a person reads it."""
    clock = time.strftime("%H:%M:%S", time.localtime(told["at"]))
    parts = ("conversation", "conversations"), ("approval", "approvals")
    counts = ", ".join(format_amount(len(told[key]), noun) for noun, key in parts)
    yield ((Style.NAME, told["organism"]), (Style.DIM, f"  {clock}  {counts}"))
    busy = [each for each in told["listeners"] if each["waiting"] or each["running"]]
    yield from _part("listeners at work", [_listener(each) for each in busy])
    yield from _part("running", [_running(each, told["at"]) for each in told["running"]])
    yield from _part("conversations", list(map(_conversation, told["conversations"])))
    yield from _part("to be approved", list(map(_approval, told["approvals"])))
    yield from _part("refused of late", [_refusal(each, told["at"]) for each in told["refusals"]])


def _part(title: str, rows: Sequence[Line]) -> Iterator[Line]:
    if not rows:
        return
    yield ((Style.PAYLOAD, title),)
    yield from rows[:ROWS]
    if rows[ROWS:]:
        yield ((Style.DIM, f"  and {len(rows) - ROWS} more"),)


def _listener(one: Mapping[str, Any]) -> Line:
    told = f"  {one['running']} running, {one['waiting']} waiting"
    return ((Style.NAME, f"  {one['name']}"), (Style.PLAIN, told))


def _running(one: Mapping[str, Any], now: float) -> Line:
    since = "" if one["since"] is None else f"  {_ago(now - one['since'])}"
    again = f"  attempt {one['attempt']}" if one["attempt"] > 1 else ""
    return (
        (Style.PLAIN, f"  {one['sender']} -> "),
        (Style.NAME, one["listener"]),
        (Style.PLAIN, f"{since}{again}"),
        (Style.DIM, f"  {one['conversation'][:8]}"),
    )


def _conversation(one: Mapping[str, Any]) -> Line:
    told = [
        f"{format_amount(one['requests'], 'request')} open",
        f"{one['running']} running",
        f"{one['queued']} queued",
    ]
    return (
        (Style.NAME, f"  {one['id'][:8]}"),
        (Style.PLAIN, f"  {one['principal']}  {', '.join(told)}"),
        (Style.DIM, f"  {format_amount(one['messages'], 'message')} so far"),
    )


def _approval(one: Mapping[str, Any]) -> Line:
    return (
        (Style.WARN, f"  {one['id'][:8]}"),
        (Style.PLAIN, f"  {one['sender']} -> {one['to']}"),
        (Style.DIM, f"  {one['conversation'][:8]}"),
    )


def _refusal(one: Mapping[str, Any], now: float) -> Line:
    return (
        (Style.DIM, f"  {_ago(now - one['at'])} ago  "),
        (Style.BAD, f"{one['event']} "),
        (Style.PLAIN, f"{one['sender']} -> {one['to'] or '?'}  {one['code']}: {one['why']}"),
        (Style.DIM, f"  {one['conversation'][:8]}"),
    )


def _ago(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
