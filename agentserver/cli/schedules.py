"""``agentserver schedules``: what the organism sends at set times, and when next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from agentserver.cli import project, reading

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.ports.schedules import Schedule


@click.command("schedules")
@project.organism_option
@reading.list_options
def command(organism: Path | None, *, lists: reading.ListPrinter) -> None:
    """List the schedules of the organism, with the time at which each is due next, in UTC."""
    now = time.time()
    dated = [(one.recurrence.next_after(now), one) for one in project.load(organism).schedules]
    lists.print(sorted(dated, key=lambda pair: pair[0]), _line, _fields, "the organism has no schedules")


def _line(dated: tuple[float, Schedule]) -> str:
    due, one = dated
    rules = f"overlap {one.overlap}, catch up {one.catch_up}"
    return f"{reading.format_time(due)}  {one.name} -> {one.listener}  {one.recurrence}  {rules}"


def _fields(dated: tuple[float, Schedule]) -> dict[str, object]:
    due, one = dated
    return {
        "name": one.name,
        "listener": one.listener,
        "due": due,
        "recurrence": str(one.recurrence),
        "principal": one.principal.name,
        "overlap": one.overlap,
        "catch_up": one.catch_up,
    }
