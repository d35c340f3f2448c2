"""``agentserver overview``: figures of the stored conversations, and what waits for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from agentserver.characters.printing import format_amount
from agentserver.cli import listing, project, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from agentserver.ports import EngineReader
    from agentserver.ports.servers import ServerState


@click.command("overview", short_help="Show figures of the journal, and what waits.")
@reading.journal_option
@click.option(
    "--last",
    type=click.Choice(["hour", "day", "week", "month", "year"]),
    help="Period that ends now. Default: the shortest one, from a day on, with a conversation.",
)
@listing.show_options
def command(storage: reading.Storage, *, last: str | None, shows: listing.RecordPrinter) -> None:
    """Show how many conversations the journal has in a period, by time, principal and listener.

    Each row has the refused and failed ones, tokens, cost, and the mean and longest duration. Those of a listener are
    of its own calls in the latest conversations. Waiting approvals, dead letters, servers and their workers follow.
    The figures are those of the live view's first page.
    """
    with storage.open() as reader:
        found = _describe(reader, last or "", storage.path if storage.is_file else None)
    shows.print(found, below=_format_overview(found))


_HEADS = f"{'conversations':>13} {'refused':>8} {'failed':>7} {'tokens':>10} {'cost':>11} {'mean':>9} {'longest':>9}"


def _describe(reader: EngineReader, period: str, path: Path | None) -> dict[str, Any]:
    from agentserver.characters.printing import escape_unseen
    from agentserver.history.overview import describe_activity, describe_servers

    now = time.time()
    pending = [each for key in reader.list_asking() for each in reader.approvals(key)]
    return {
        **describe_activity(reader, period, now, escape_unseen),
        "waiting": [
            {
                "approval": one.id,
                "conversation": one.delivery.conversation,
                "to": escape_unseen(one.delivery.to),
                "age": now - one.at,
            }
            for one in sorted(pending, key=lambda one: one.at)
        ],
        "dead": len(reader.dead()),
        "servers": describe_servers(reader.list_servers() or _ask_servers(path), escape_unseen),
    }


def _ask_servers(path: Path | None) -> list[ServerState]:
    """Ask the server that has a journal file open to describe itself; none runs, or it is another user's: none."""
    from agentserver.cli.conversations import read_overviews
    from agentserver.ports.servers import STATES

    found = [] if path is None else read_overviews(path)
    return [STATES.value(each["server"]) for each in found]


def _format_overview(found: Mapping[str, Any]) -> Iterator[str]:
    total = found["total"]
    yield f"{listing.format_time(found['since'])} to {listing.format_time(found['until'])} (last {found['period']})"
    yield f"{'':30} {_HEADS}"
    yield _format_row("all", total)
    yield from _format_named(found)
    times = [one for one in found["times"] if one["conversations"]]
    if times:
        yield "by time:"
        yield from (_format_row(f"  {listing.format_time(one['start'])}", one) for one in times)
    yield f"waiting for approval: {len(found['waiting'])}"
    for one in found["waiting"]:
        key = one["approval"]
        yield f"  {key}  to {one['to']}  for {one['age']:.0f} s  (agentserver approvals show {key[:12]})"
    yield f"dead letters: {found['dead']}{'  (agentserver dead)' if found['dead'] else ''}"
    yield from _format_servers(found["servers"])
    if not total["conversations"]:
        project.say("no conversation was opened in this period; --last year looks further back", err=True)


def _format_servers(servers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"servers: {len(servers)}" if servers else "servers: none runs here"
    for one in servers:
        work = f"{one['conversations']} conversations, {one['running']} running, {one['queued']} queued"
        yield f"  {one['state']:5} {one['name']}  {_format_life(one)}  {work}"
        for each in one["workers"]:
            calls = format_amount(each["calls"], "call")
            yield f"    {each['state']:5} {each['listener']}: {each['name']}  {_format_life(each)}  {calls}"


def _format_life(one: Mapping[str, Any]) -> str:
    return f"since {listing.format_time(one['since'])}, heard {listing.format_time(one['seen'])}"


def _format_named(found: Mapping[str, Any]) -> Iterator[str]:
    if found["principals"]:
        yield "by principal:"
        yield from (_format_row(f"  {one['name']}", one) for one in found["principals"])
    if found["listeners"]:
        yield "by listener, with the durations of its own calls:"
        for one in found["listeners"]:
            timed = {"mean": one["call_mean"], "longest": one["call_longest"]}
            yield _format_row(f"  {one['name']}", {**one, **timed})


def _format_duration(seconds: float | None) -> str:
    return (
        f"{'-':>9}"
        if seconds is None
        else f"{seconds:7.1f} s"
        if seconds >= 1
        else f"{1000 * seconds:6.0f} ms"
    )


def _format_row(name: str, one: Mapping[str, Any]) -> str:
    cost = f"${one['money'] / 1_000_000:.4f}"
    return (
        f"{name[:30]:30} {one['conversations']:13} {one['refused']:8} {one['failed']:7} {one['tokens']:10} {cost:>11}"
        f" {_format_duration(one['mean'])} {_format_duration(one['longest'])}"
    )
