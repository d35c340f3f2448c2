"""The command line: one module for each verb.

Owns what the verbs share: options of logging, the version, the meaning of exit codes. Refuses to know what a verb does.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import collecting
from agentserver.cli.ending import follow
from agentserver.cli.logs import Format, Level, Logging
from agentserver.cli.project import SECRETS, UNUSABLE, refuse, say, unwritable
from agentserver.cli.reading import READERS
from agentserver.cli.verbs import Verbs
from agentserver.extras import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from enum import StrEnum
    from typing import NoReturn

    from agentserver.cli.reading import EngineOpener

__all__ = ["cli", "main"]

F = TypeVar("F", bound="Callable[..., Any]")

INTERRUPTED = 130

EXITS = """\
\b
Exit codes:
  0    done
  1    run: a message of a script was refused or not answered; call, send:
       the answer is a SystemError; check: the organism has mistakes; schemas
       --check: files are not current; plan audit: a finding is HARD; audit
       verify: a record was changed; orchestrate: the session cannot be
       listened to; replay: a decision differs, or other rules would decide
       otherwise
  2    the command, a line of a script, the configuration or the file is not
       understood; the journal cannot be used; the output cannot be written
  3    call, send: no answer
  70   run, serve: a handler held the event loop for too long
  130  stopped by Ctrl-C
  143  run, serve: ended at once by a second SIGTERM
"""


VERBS: Mapping[str, str] = MappingProxyType(
    {
        "run": "run.command",
        "serve": "serve.command",
        "worker": "worker.command",
        "call": "call.command",
        "send": "send.command",
        "check": "check.command",
        "init": "init.command",
        "graph": "graph.command",
        "schemas": "schemas.command",
        "conversations": "conversations.command",
        "approvals": "approvals.command",
        "approve": "approvals.approve",
        "deny": "approvals.deny",
        "top": "top.command",
        "trace": "trace.command",
        "explain": "explain.command",
        "replay": "replay.command",
        "dead": "dead.command",
        "journal": "journal.command aside.command",
        "engine": "engine.command",
        "mcp": "mcp.command",
        "principals": "principals.command",
        "codegen": "codegen.command",
        "plan": "plan.command",
        "audit": "audit.command",
        "provenance": "provenance.command",
        "orchestrate": "orchestrate.command",
        "completion": "completion.command",
    }
)
"""The verbs, in the order in which they are needed: the module of this folder that makes each, with its name there.

After a group stand verbs that join it from modules of their own.
"""


class _Root(Verbs):
    """The group of all verbs. A verb's module is imported when it is asked for: a start waits for no other's."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VERBS and cmd_name not in self.commands:
            verb, *joining = map(_made, VERBS[cmd_name].split())
            if isinstance(verb, click.Group):
                for each in joining:
                    verb.add_command(each)
            _add(self, verb)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb; Ctrl-C ends it without a traceback, and so does an extra that is missing."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except MissingExtraError as error:
            refuse(ctx, str(error))
        except click.ClickException as error:
            raise _legible(error, ctx.meta.get(SECRETS, str)) from None

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """The context of a verb; what is wrong with the command can be shown."""
        try:
            return super().make_context(*args, **kwargs)
        except click.ClickException as error:
            raise _legible(error) from None


def _made(where: str) -> click.Command:
    module, name = where.split(".")
    made: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
    return made


def _legible(error: click.ClickException, redact: Callable[[str], str] = str) -> click.ClickException:
    """The error, with nothing in what it says that is a terminal's to act on: it may repeat what was typed."""
    from agentserver.characters.printing import one_line

    vars(error).update(message="\n".join(map(one_line, redact(error.message).split("\n"))))
    return error


def _show_version(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:  # noqa: FBT001 - click's
    if asked:
        from agentserver.extras import find_version

        click.echo(f"agentserver, version {find_version() or 'from a checkout'}")
        ctx.exit()


def _logging(name: str, words: type[StrEnum], text: str, **more: Any) -> Callable[[F], F]:
    """An option of logging."""
    kind = click.Choice([*map(str, words)])
    return click.option(f"--log-{name}", type=kind, help=text, show_default=True, **more)


def _log_otherwise(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let what follows a verb count over what stands before it."""
    if value is not None and isinstance(ctx.obj, Logging):
        before = ctx.obj
        ctx.obj = (
            replace(before, level=Level(value))
            if param.name == "log_level"
            else replace(before, format=Format(value))
        )


def _add(group: click.Group, command: click.Command) -> None:
    """Add a verb, which takes the options of logging as well, each of its own verbs too."""
    group.add_command(command)
    below = [command]
    while below:
        each = below.pop()
        below += each.commands.values() if isinstance(each, click.Group) else ()
        _logging("level", Level, "As before the verb.", callback=_log_otherwise, expose_value=False)(each)
        _logging("format", Format, "As before the verb.", callback=_log_otherwise, expose_value=False)(each)


@click.group(
    cls=_Root, name="agentserver", epilog=EXITS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@_logging("level", Level, "Least severity that is logged, to standard error.", default=str(Level.WARNING))
@_logging("format", Format, "Text for people, or one JSON object a line.", default=str(Format.TEXT))
@click.pass_context
def cli(ctx: click.Context, log_level: str, log_format: str) -> None:
    """Run and examine organisms of agents and tools that exchange typed messages."""
    if ctx.obj is not None:
        ctx.meta[READERS] = ctx.obj
    ctx.obj = Logging(Level(log_level), Format(log_format))


def _open_streams() -> None:
    """Take the places of the standard streams that are closed: a file that is opened next would stand for one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _run(args: Sequence[str] | None, readers: EngineOpener | None) -> NoReturn:
    """Run the command. Where nobody reads what it says, click ends it in silence."""
    try:
        cli.main(args, prog_name="agentserver", obj=readers)
    except OSError as error:
        if not unwritable(error):
            raise
        from agentserver.trace.terminal import silence

        say(f"the output cannot be written: {error.strerror}", err=True)
        silence(sys.stdout)
    raise SystemExit(UNUSABLE)


def main(args: Sequence[str] | None = None, *, readers: EngineOpener | None = None) -> None:
    """The entry point. Always ends in SystemExit, and without ``args`` the process ends with it.

    Args:
        args: the words of the command; those of the process when left out.
        readers: what verbs that read look into, for a program that has an engine of its own; the organism's journal
            when left out.
    """
    if args is None:
        _open_streams()
        collecting.seldom()
    try:
        _run(args, readers)
    except SystemExit as ended:
        if args is None:
            collecting.ended()
            follow(ended.code if isinstance(ended.code, int) else 1)
        raise
