"""``agentserver overview``: figures of the stored conversations, and what waits for people."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from agentserver.characters.printing import escape_unseen, format_amount
from agentserver.cli import listing, project, reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from agentserver.ports import EngineReader
    from agentserver.ports.servers import ServerState


@click.command("overview", short_help="Show figures of the journal, and what waits.")
@reading.add_journal_option
@click.option(
    "--last",
    type=click.Choice(["hour", "day", "week", "month", "year"]),
    help="Period that ends now. Default: the shortest one, from a day on, with a conversation.",
)
@listing.add_record_options
def command(storage: reading.Storage, *, last: str | None, shows: listing.RecordPrinter) -> None:
    """Show how many conversations the journal has in a period, by time, principal and listener.

    Each row has the refused and failed ones, tokens, cost, and the mean and longest duration. A listener's
    durations are of its own calls in the latest conversations. Waiting approvals, dead letters, servers and their
    workers follow. The figures are those of the live view's first page.
    """
    with storage.open() as reader:
        found = _describe(reader, last or "", storage.path if storage.is_file else None)
    if shows.as_json:
        shows.print(found)
        return
    for line in _format_overview(found):
        click.echo(line)


def _describe(reader: EngineReader, period: str, path: Path | None) -> dict[str, Any]:
    from agentserver.history.overview import describe_activity, describe_servers

    now = time.time()
    pending = [each for key in reader.list_asking() for each in reader.approvals(key)]
    return {
        **describe_activity(reader, period, now),
        "waiting": [
            {
                "approval": one.id,
                "conversation": one.delivery.conversation,
                "to": one.delivery.to,
                "age": now - one.at,
            }
            for one in sorted(pending, key=lambda one: one.at)
        ],
        "dead": len(reader.dead()),
        "servers": describe_servers(reader.list_servers() or _ask_servers(path)),
    }


def _ask_servers(path: Path | None) -> list[ServerState]:
    """Ask the servers that have a journal file open for their state; empty for those of other users."""
    from agentserver.cli.conversations import read_overviews
    from agentserver.ports.servers import STATES

    found = [] if path is None else read_overviews(path)
    return [STATES.value(each["server"]) for each in found]


def _format_duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


FIGURES = (
    "conversations",
    "refused",
    "failed",
    "tokens",
    listing.Column("cost", lambda row: f"${row['money'] / 1_000_000:.4f}"),
    listing.Column("mean", lambda row: _format_duration(row["mean"])),
    listing.Column("longest", lambda row: _format_duration(row["longest"])),
)
"""Columns of each table of figures."""


def _format_table(head: str, rows: Sequence[listing.Row]) -> Iterable[str]:
    """Format a table of figures. ``head`` is the name of its first column."""
    from agentserver.trace.terminal import find_columns

    name = listing.Column(head, lambda row: row["name"])
    return listing.format_table(rows, (name, *FIGURES), find_columns(sys.stdout) or sys.maxsize)


def _format_overview(found: Mapping[str, Any]) -> Iterator[str]:
    """Format the overview as lines to print, in which every name is escaped once."""
    total = found["total"]
    yield f"{listing.format_time(found['since'])} to {listing.format_time(found['until'])} (last {found['period']})"
    yield from _format_table("", [{**total, "name": "all"}])
    yield from _format_table("principal", found["principals"])
    listeners = [
        {**one, "mean": one["call_mean"], "longest": one["call_longest"]} for one in found["listeners"]
    ]
    yield from _format_table("listener", listeners)
    times = [
        {**one, "name": listing.format_time(one["start"])} for one in found["times"] if one["conversations"]
    ]
    yield from _format_table("time", times)
    yield f"waiting for approval: {len(found['waiting'])}"
    for one in found["waiting"]:
        key = one["approval"]
        yield f"  {key}  to {escape_unseen(one['to'])}  for {one['age']:.0f} s  (agentserver approvals show {key[:12]})"
    yield f"dead letters: {found['dead']}{'  (agentserver dead)' if found['dead'] else ''}"
    yield from _format_servers(found["servers"])
    if not total["conversations"]:
        project.say("no conversation was opened in this period; --last year looks further back", err=True)


def _format_servers(servers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"servers: {len(servers)}" if servers else "servers: none runs here"
    for one in servers:
        work = f"{one['conversations']} conversations, {one['running']} running, {one['queued']} queued"
        yield f"  {one['state']:5} {escape_unseen(one['name'])}  {_format_life(one)}  {work}"
        for each in one["workers"]:
            calls = format_amount(each["calls"], "call")
            named = escape_unseen(f"{each['listener']}: {each['name']}")
            yield f"    {each['state']:5} {named}  {_format_life(each)}  {calls}"


def _format_life(one: Mapping[str, Any]) -> str:
    return f"since {listing.format_time(one['since'])}, heard {listing.format_time(one['seen'])}"
