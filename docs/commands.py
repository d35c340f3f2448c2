"""Writes docs/commands.md: the help of every command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from agentserver.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).with_name("commands.md")
WIDTH: Final = 110
EVERYWHERE: Final = frozenset({"log_level", "log_format", "help"})
"""Options that each command has; they are told once, with the first."""

HEAD: Final = """\
# Commands

Every command, as `--help` shows it. `--log-level`, `--log-format` and `--help` belong to each of them.
This page is made from the command line itself (`./run generate`).
"""


def commands(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Give the context of a command and of each command below it, in the order of the help."""
    context = command.context_class(
        command, parent, info_name=command.name, terminal_width=WIDTH, **command.context_settings
    )
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, context)


def describe(context: click.Context) -> list[str]:
    """Write the heading of a command and its help."""
    command = context.command
    if context.parent is not None:
        command.params = [each for each in command.params if each.name not in EVERYWHERE]
        command.add_help_option = False
    level = "#" * min(4, 1 + len(context.command_path.split()))
    return [f"{level} {context.command_path}", "", "```text", command.get_help(context).rstrip(), "```", ""]


def page() -> str:
    """Write the whole page."""
    lines = [HEAD]
    for context in commands(cli):
        lines += describe(context)
    return "\n".join(lines)


def texts() -> dict[Path, str]:
    """Return the page."""
    return {PAGE: page()}
