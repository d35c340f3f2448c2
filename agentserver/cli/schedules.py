"""``agentserver schedules``: lists what the organism sends at set times, sends one now, and pauses it."""

from __future__ import annotations

import time
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import click

from agentserver.cli import listing, project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.ports.schedules import OrderKind, Schedule, ScheduleOrder


@click.group(
    "schedules",
    cls=Verbs,
    short_help="List, run and pause what the organism sends at set times.",
    invoke_without_command=True,
)
@reading.add_journal_option
@listing.add_list_options
def command(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the schedules of the organism, with the time at which each is due next, in UTC."""
    now, orders = _read_orders(storage)
    rows = [_describe(one, now, orders) for one in project.load(storage.organism).schedules]
    lists.print(sorted(rows, key=itemgetter("due")), COLUMNS, "the organism has no schedules")


COLUMNS = (
    listing.make_time_column("due"),
    "name",
    listing.Column("paused", lambda row: row["paused"] and f"by {row['paused']['by']}"),
    "listener",
    "recurrence",
    "overlap",
    "catch_up",
    "ordered",
)


def _describe(one: Schedule, now: float, orders: Sequence[ScheduleOrder]) -> listing.Row:
    from agentserver.ports.schedules import find_state

    about = [each for each in orders if each.schedule == one.name]
    state = find_state(about)
    return {
        **{name: getattr(one, name) for name in ("name", "listener", "overlap", "catch_up")},
        "due": one.recurrence.next_after(now),
        "recurrence": str(one.recurrence),
        "principal": one.principal.name,
        "paused": {"by": state.by, "at": state.at} if state is not None and state.kind == "paused" else None,
        "ordered": sum(each.kind == "run" for each in about),
    }


@command.command("run")
@click.argument("name")
@reading.add_journal_option
def run(storage: reading.Storage, name: str) -> None:
    """Send the message of schedule NAME now, also while it is paused, in a conversation of your own.

    It waits until an earlier message of the schedule is done, and counts as one for its overlap.
    """
    _order(storage, name, "run")
    click.echo(f"{name}: one message is ordered; {reading.PICKUP}")


@command.command("pause")
@click.argument("name")
@reading.add_journal_option
def pause(storage: reading.Storage, name: str) -> None:
    """Pause schedule NAME at all servers until it is resumed. Due times until then are never sent."""
    _order(storage, name, "paused")
    click.echo(f"{name} is paused")


@command.command("resume")
@click.argument("name")
@reading.add_journal_option
def resume(storage: reading.Storage, name: str) -> None:
    """Resume schedule NAME with its next due time."""
    _order(storage, name, "resumed")
    click.echo(f"{name} is resumed")


def _order(storage: reading.Storage, name: str, kind: OrderKind) -> None:
    """Leave an order in the engine, unless it changes nothing."""
    from agentserver.config.findings import did_you_mean
    from agentserver.engines.journal import records
    from agentserver.ports.schedules import ScheduleOrder, find_state

    known = [one.name for one in project.load(storage.organism).schedules]
    if name not in known:
        project.refuse(f"the organism has no schedule {name!r}", *filter(None, (did_you_mean(name, known),)))
    state = find_state([each for each in _read_orders(storage)[1] if each.schedule == name])
    paused = state is not None and state.kind == "paused"
    if kind == ("paused" if paused else "resumed"):
        project.refuse(f"{name} is {'paused already' if paused else 'not paused'}")
    order = partial(ScheduleOrder, name, kind, project.name_user())
    storage.use_connection(lambda connection, at: records.put_order(connection, order(at)))


def _read_orders(storage: reading.Storage) -> tuple[float, Sequence[ScheduleOrder]]:
    """Return the servers' current time and the orders of schedules; no orders without a journal."""
    file = project.find_organism(storage.organism)
    if storage.journal is None and file is not None and project.read_glimpse(file).unkept:
        return time.time(), ()
    if storage.is_file and not storage.path.exists():
        return time.time(), ()
    with storage.open() as reader:
        orders = reader.list_schedule_orders()
    return storage.read_clock(), orders
