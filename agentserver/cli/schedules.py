"""``agentserver schedules``: lists what the organism sends at set times, sends one now, and pauses it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from agentserver.cli import project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.ports.schedules import OrderKind, Schedule, ScheduleOrder


class _Row(NamedTuple):
    schedule: Schedule
    due: float
    paused: ScheduleOrder | None
    ordered: int


@click.group(
    "schedules",
    cls=Verbs,
    short_help="List, run and pause what the organism sends at set times.",
    invoke_without_command=True,
)
@reading.journal_option
@reading.list_options
def command(arguments: reading.JournalArguments, *, lists: reading.ListPrinter) -> None:
    """List the schedules of the organism, with the time at which each is due next, in UTC."""
    from agentserver.ports.schedules import find_state

    now, orders = _read_engine(arguments)
    rows = []
    for one in project.load(arguments.organism).schedules:
        about = [each for each in orders if each.schedule == one.name]
        state = find_state(about)
        paused = state if state is not None and state.kind == "paused" else None
        runs = sum(each.kind == "run" for each in about)
        rows.append(_Row(one, one.recurrence.next_after(now), paused, runs))
    lists.print(sorted(rows, key=lambda row: row.due), _line, _fields, "the organism has no schedules")


@command.command("run")
@click.argument("name")
@reading.journal_option
def run(arguments: reading.JournalArguments, name: str) -> None:
    """Send the message of schedule NAME now, also while it is paused, in a conversation of your own.

    It waits until an earlier message of the schedule is done, and counts as one for its overlap.
    """
    _order(arguments, name, "run")
    click.echo(f"{name}: one message is ordered; {reading.PICKUP}")


@command.command("pause")
@click.argument("name")
@reading.journal_option
def pause(arguments: reading.JournalArguments, name: str) -> None:
    """Pause schedule NAME at all servers until it is resumed. Due times until then are never sent."""
    _order(arguments, name, "paused")
    click.echo(f"{name} is paused")


@command.command("resume")
@click.argument("name")
@reading.journal_option
def resume(arguments: reading.JournalArguments, name: str) -> None:
    """Resume schedule NAME with its next due time."""
    _order(arguments, name, "resumed")
    click.echo(f"{name} is resumed")


def _order(arguments: reading.JournalArguments, name: str, kind: OrderKind) -> None:
    """Leave an order in the engine, unless it changes nothing."""
    from agentserver.config.findings import did_you_mean
    from agentserver.engines.journal import records
    from agentserver.ports.schedules import ScheduleOrder, find_state

    known = [one.name for one in project.load(arguments.organism).schedules]
    if name not in known:
        project.refuse(f"the organism has no schedule {name!r}", *filter(None, (did_you_mean(name, known),)))
    state = find_state([each for each in _read_engine(arguments)[1] if each.schedule == name])
    paused = state is not None and state.kind == "paused"
    if kind == ("paused" if paused else "resumed"):
        project.refuse(f"{name} is {'paused already' if paused else 'not paused'}")
    order = partial(ScheduleOrder, name, kind, project.user())
    reading.leave(
        reading.find_source(arguments), lambda connection, at: records.put_order(connection, order(at))
    )


def _read_engine(arguments: reading.JournalArguments) -> tuple[float, Sequence[ScheduleOrder]]:
    """Return the servers' current time and the orders of schedules; no orders without a journal."""
    file = project.find_organism(arguments.organism)
    if arguments.journal is None and file is not None and project.glimpse(file).unkept:
        return time.time(), ()
    source = reading.find_source(arguments)
    if source.path is not None and not source.path.exists():
        return time.time(), ()
    with reading.open_reader(source) as reader:
        orders = reader.list_schedule_orders()
    return reading.read_clock(source), orders


def _line(row: _Row) -> str:
    one = row.schedule
    rules = f"overlap {one.overlap}, catch up {one.catch_up}"
    states = []
    if row.paused is not None:
        states.append(f"paused by {row.paused.by} at {reading.format_time(row.paused.at)}")
    if row.ordered:
        states.append("run ordered")
    suffix = "".join(f", {each}" for each in states)
    return f"{reading.format_time(row.due)}  {one.name} -> {one.listener}  {one.recurrence}  {rules}{suffix}"


def _fields(row: _Row) -> dict[str, object]:
    one, paused = row.schedule, row.paused
    return {
        **{name: getattr(one, name) for name in ("name", "listener", "overlap", "catch_up")},
        "due": row.due,
        "recurrence": str(one.recurrence),
        "principal": one.principal.name,
        "paused": None if paused is None else {"by": paused.by, "at": paused.at},
        "ordered": row.ordered,
    }
