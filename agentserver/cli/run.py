"""``agentserver run``: opens the console on an organism, as a prompt or for a script."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import host, project
from agentserver.cli.host import Hangups
from agentserver.cli.process import is_no_hop
from agentserver.extras import install_hint, is_installed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractContextManager

    from agentserver.assembly import Server
    from agentserver.cli.process import GracefulEnd
    from agentserver.core.messages import Done, Reply
    from agentserver.gateways.console.console import Console
    from agentserver.gateways.console.lines import Lines
    from agentserver.pump.handle import ServerHandle
    from agentserver.trace.terminal import Screen


@click.command("run", short_help="Open the console on an organism.")
@project.add_organism_argument
@host.reload_option
def command(organism: Path | None, *, reloads: bool) -> None:
    """Open the console on ORGANISM (config/organism.yaml, then organism.yaml).

    On a terminal it is a prompt with history and completion; /help lists the commands. The history is kept in
    $XDG_STATE_HOME/agentserver/history (mode 0600) without lines that begin with a space or contain a secret
    that the configuration took from the environment or a file.

    Standard input from a file or pipe is a script: the next line is read when the message before it is done,
    and exit code 0 means that every message was answered without an error.

    At the end of a session, running handlers may finish within limits.drain. With a journal, the next start
    continues unfinished work. A second signal ends the process at once without further loss.

    Approvals are requested at the prompt; with a journal, agentserver approve and agentserver deny answer them
    too. In a script without a journal, messages that need an approval are refused. A script may answer with
    /approve, and waits at its end for unanswered approvals.

    With --reload, a change of the project's files or a SIGHUP loads ORGANISM again: running handlers finish in
    the old code, everything else uses the new. Watching files needs the extra reload. If the new organism has
    mistakes, or changes what a running server cannot change, they are printed and nothing changes.
    """
    hangups = Hangups() if reloads else None
    server = project.build_server(project.load(organism), durable=True)
    ending = host.make_shutdown(server)
    host.run_server(server, ending, open_console(server, ending), hangups=hangups)


def open_console(server: Server, ending: GracefulEnd) -> Callable[[], Awaitable[int]]:
    """Make a console on a server. Await the returned function while the server runs; it returns the status."""
    import anyio

    from agentserver.gateways.console.console import Console
    from agentserver.supervision import EndEffect, start_errand
    from agentserver.trace.terminal import Screen, find_columns, wants_colour

    _escape_unencodable(sys.stdout)
    width = partial(find_columns, sys.stdout)
    screen = Screen(wants_colour(sys.stdout, os.environ), partial(host.redact, server), columns=width)
    console = Console(
        server,
        screen,
        interactive=sys.stdin.isatty(),
        principal=project.choose_principal(server.organism),
        by=project.name_user(),
        ending=ending,
    )
    if console.interactive or server.durable:
        server.approver = console.approvals
    if console.interactive:
        _greet(console, server, screen)
    lines, above = _choose_input(console, server, screen)

    async def run() -> int:
        async with anyio.create_task_group() as tasks:
            for handle, ends in await _fetch_missed(server, screen):
                following = partial(_follow, handle, server, screen, ends=ends)
                start_errand(tasks, "follows an earlier conversation", EndEffect.OWNER, following)
            with above:
                status = await console.run(lines)
            tasks.cancel_scope.cancel()
        await screen.flush()
        if screen.unwritten is not None:
            raise screen.unwritten
        return status

    return run


async def _fetch_missed(server: Server, screen: Screen) -> list[tuple[ServerHandle, bool]]:
    """Show the missed answers of earlier conversations, and close answered ones of ended consoles.

    Returns: the handles of unfinished ones, each with whether it is of a console.
    """
    from agentserver.gateways.console.session import DOOR

    me = project.choose_principal(server.organism)
    own = await server.left_over(me, DOOR)
    followed = []
    for key in await server.left_over(me):
        handle = await server.resume(me, key)
        shown: list[Reply | Done] = []
        while await handle.fetch():
            for event in handle.iter_waiting():
                await _show(event, server, screen)
                shown.append(event)
        conversation = server.conversation(key)
        if conversation is not None and conversation.requests:
            followed.append((handle, key in own))
        elif key in own and shown and all(map(_is_answer, shown)):
            await handle.close()
        else:
            handle.detach()
    return followed


async def _follow(handle: ServerHandle, server: Server, screen: Screen, *, ends: bool) -> None:
    """Show further answers of an earlier conversation. With ``ends``, close it after the last one.

    After a failure it stays open, for its dead letter to be requeued.
    """
    failed = False
    async for event in handle.events():
        await _show(event, server, screen)
        failed = failed or not _is_answer(event)
        conversation = server.conversation(handle.id)
        if ends and not failed and (conversation is None or not conversation.requests):
            await handle.close()
            return


def _is_answer(event: Reply | Done) -> bool:
    """Check whether an event is an answer, or the end after one."""
    from agentserver.core.messages import Done

    return event.answered if isinstance(event, Done) else not event.error


async def _show(event: Reply | Done, server: Server, screen: Screen) -> None:
    """Show an event of an earlier conversation, and wait until it is written, which acknowledges it."""
    from agentserver.core.messages import Reply
    from agentserver.gateways.console import view

    again = ", perhaps again" if event.redelivered else ""
    if isinstance(event, Reply):
        screen.say(f"from conversation {event.conversation}{again}:")
        codecs = server.rules.codecs
        screen.show(*view.format_reply_lines(event, codecs, raw=False, redact=screen.redact))
    elif not event.answered:
        screen.say(f"from conversation {event.conversation}{again}: ended without an answer")
    await screen.flush()


def _greet(console: Console, server: Server, screen: Screen) -> None:
    """Greet an interactive session, in which hops are shown and need not be logged."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(is_no_hop)
    screen.say(console.greet(server.organism.name))


def _escape_unencodable(stream: object) -> None:
    """Let a stream write characters that it cannot encode as escapes."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _choose_input(
    console: Console, server: Server, screen: Screen
) -> tuple[Lines, AbstractContextManager[None]]:
    """Choose a prompt on a capable terminal with the ``console`` extra, else plain lines."""
    from agentserver.gateways.console.lines import PlainLines

    both = sys.stdin.isatty() and sys.stdout.isatty()
    plain = PlainLines(sys.stdin.fileno(), screen.prompt if both else None)
    if not both or os.environ.get("TERM", "dumb") == "dumb":
        return plain, contextlib.nullcontext()
    if not is_installed("console"):
        screen.say(
            f"There is no history and no completion: they need the extra console ({install_hint('console')})."
        )
        return plain, contextlib.nullcontext()
    from agentserver.gateways.console.prompt import ListenerCompleter, PromptLines, open_history

    entered, trouble = open_history(find_history_file(os.environ), server.organism.secrets.redact)
    if trouble:
        screen.say(trouble)
    prompt = PromptLines(ListenerCompleter(console.takers, console.ids), entered, hold=console.is_interrupted)
    return prompt, prompt.above()


def find_history_file(environ: Mapping[str, str]) -> Path | None:
    """Find the path of the history (XDG Base Directory Specification: a relative path counts as unset)."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if state.is_absolute():
        return state / "agentserver" / "history"
    home = Path(environ.get("HOME", ""))
    return home / ".local" / "state" / "agentserver" / "history" if home.is_absolute() else None
