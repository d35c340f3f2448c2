"""The command line: the root command, the table of verbs, and the options that all verbs share."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import process
from agentserver.cli.process import ExitCode, Format, Level, Logging, exit_after_main
from agentserver.cli.project import (
    SECRETS,
    Verbs,
    find_reason,
    is_output_error,
    list_reportable,
    refuse,
    say,
)
from agentserver.cli.reading import READERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from enum import StrEnum

    from agentserver.cli.reading import EngineOpener

__all__ = ["cli", "main"]

F = TypeVar("F", bound="Callable[..., Any]")

EXITS = """\
\b
Exit codes:
  0    done
  1    run: a message of a script was refused or got no answer; call, send:
       the answer is a SystemError; check: the organism has errors; schemas
       --check: a file is out of date; plan audit: a finding is HARD; audit
       verify, journal verify: a record was changed; orchestrate: the session
       cannot be read; compare, replay: a step differs; mcp diff: a tool
       differs; provenance backtest: a condition of --fail-if holds
  2    the command, a line of a script, the configuration or a file is
       invalid; the journal cannot be used; the output cannot be written
  3    call, send: no answer
  4    send: no answer, and a person has to approve a message
  70   run, serve: a handler blocked the event loop for too long
  130  stopped by Ctrl-C
  143  run, serve, worker: killed by a second SIGTERM
"""


VERBS: Mapping[str, str] = MappingProxyType(
    {
        "run": "run.command",
        "serve": "serve.command",
        "worker": "worker.command",
        "call": "call.command",
        "send": "send.command",
        "check": "check.check_command",
        "init": "init.command",
        "graph": "check.graph_command",
        "schemas": "schemas.schemas_command",
        "overview": "overview.command",
        "conversations": "conversations.conversations_command",
        "schedules": "schedules.command",
        "approvals": "approvals.command",
        "approve": "approvals.approve",
        "deny": "approvals.deny",
        "effects": "effects.command",
        "memory": "memory.command",
        "top": "conversations.top_command",
        "trace": "conversations.trace_command",
        "compare": "conversations.compare_command",
        "explain": "explain.command",
        "replay": "replay.command",
        "fork": "fork.command",
        "dead": "dead.command",
        "journal": "journal.command",
        "engine": "engine.command",
        "mcp": "mcp.command",
        "principals": "principals.command",
        "codegen": "schemas.codegen_command",
        "plan": "handoffs.plan_command",
        "audit": "handoffs.audit_command",
        "provenance": "provenance.command",
        "orchestrate": "handoffs.orchestrate_command",
        "completion": "call.completion_command",
    }
)
"""Verbs in the order of the help, each with the module of this folder and the name there that make it."""


class Root(Verbs):
    """Group of all verbs, which imports the module of a verb when that verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VERBS and cmd_name not in self.commands:
            _add_verb(self, _import_verb(VERBS[cmd_name]))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. End it without a traceback on Ctrl-C and on an error that has a message for people."""
        with _end_without_output():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(ExitCode.INTERRUPTED)
        except click.ClickException as error:
            raise _escape_error(error, ctx.meta.get(SECRETS, str)) from None
        except list_reportable() as error:
            reason = find_reason(error)
            if not reason:
                raise
            logging.getLogger(__name__).debug("the command ends by this error", exc_info=error)
            refuse(*reason)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; escape control characters in what click reports about it."""
        try:
            with _end_without_output():
                return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            raise _escape_error(error) from None


@contextmanager
def _end_without_output() -> Iterator[None]:
    """End the command with UNUSABLE when its output cannot be written, silently if its reader is gone."""
    try:
        yield
    except OSError as error:
        if not is_output_error(error):
            raise
        from agentserver.trace.terminal import silence

        if not isinstance(error, BrokenPipeError):
            say(f"the output cannot be written: {error.strerror}", err=True)
        silence(sys.stdout)
        raise SystemExit(ExitCode.UNUSABLE) from None


def _import_verb(path: str) -> click.Command:
    module, name = path.split(".")
    command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
    return command


def _escape_error(error: click.ClickException, redact: Callable[[str], str] = str) -> click.ClickException:
    """Escape control characters in the message of an error, which may repeat user input."""
    from agentserver.characters.printing import one_line

    vars(error).update(message="\n".join(map(one_line, redact(error.message).split("\n"))))
    return error


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    if value:
        from agentserver.extras import find_version

        click.echo(f"agentserver, version {find_version() or 'from a checkout'}")
        ctx.exit()


def _make_logging_option(name: str, words: type[StrEnum], text: str, **settings: Any) -> Callable[[F], F]:
    """Make an option that configures logging."""
    kind = click.Choice([*map(str, words)])
    return click.option(f"--log-{name}", type=kind, help=text, show_default=True, **settings)


def _override_logging(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let a logging option after the verb override the one before it."""
    if value is not None and isinstance(ctx.obj, Logging):
        level = param.name == "log_level"
        ctx.obj = replace(ctx.obj, level=Level(value)) if level else replace(ctx.obj, format=Format(value))


def _add_verb(group: click.Group, command: click.Command) -> None:
    """Add a verb, and the logging options to it and to its own verbs."""
    group.add_command(command)
    below = [command]
    while below:
        each = below.pop()
        below += each.commands.values() if isinstance(each, click.Group) else ()
        for name, words in (("level", Level), ("format", Format)):
            text = "Overrides the option before the verb."
            _make_logging_option(name, words, text, callback=_override_logging, expose_value=False)(each)


@click.group(
    cls=Root,
    name="agentserver",
    epilog=EXITS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@_make_logging_option(
    "level", Level, "Lowest severity to log, to standard error.", default=str(Level.WARNING)
)
@_make_logging_option(
    "format", Format, "Text for people, or one JSON object a line.", default=str(Format.TEXT)
)
@click.pass_context
def cli(ctx: click.Context, log_level: str, log_format: str) -> None:
    """Run and examine organisms of agents and tools that exchange typed messages."""
    if ctx.obj is not None:
        ctx.meta[READERS] = ctx.obj
    ctx.obj = Logging(Level(log_level), Format(log_format))


def _open_streams() -> None:
    """Open the null device for closed standard streams, so that no file takes their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def main(args: Sequence[str] | None = None, *, readers: EngineOpener | None = None) -> None:
    """Run the command line. Always raises SystemExit; without ``args`` the process ends with it.

    Args:
        args: arguments of the command; those of the process by default.
        readers: opens the engine that reading verbs look into, for a program that has its own; the organism's
            journal by default.
    """
    if args is None:
        _open_streams()
        process.collect_rarely()
    try:
        cli.main(args, prog_name="agentserver", obj=readers)
    except SystemExit as exiting:
        if args is None:
            process.freeze_at_exit()
            exit_after_main(exiting.code if isinstance(exiting.code, int) else 1)
        raise
