"""``agentserver run``: the console on an organism.

Owns the choice between prompt and plain lines. What a session does is for gateways/console/console.py.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentserver.cli import project, reloading, session
from agentserver.cli.logs import without_hops
from agentserver.cli.reloading import Hangups
from agentserver.extras import installed, installing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractContextManager

    from agentserver.assembly import Server
    from agentserver.cli.ending import GracefulEnd
    from agentserver.core.messages import Done, Reply
    from agentserver.gateways.console.console import Console
    from agentserver.gateways.console.lines import Lines
    from agentserver.pump.handle import ServerHandle
    from agentserver.trace.terminal import Screen


@click.command("run", short_help="Open the console on an organism.")
@project.organism_argument
@reloading.reload_option
@click.pass_context
def command(ctx: click.Context, organism: Path | None, *, reloads: bool) -> None:
    """Open the console on ORGANISM (config/organism.yaml, then organism.yaml).

    On a terminal it is a prompt with history and completion; /help lists what can be typed. The history is kept in
    $XDG_STATE_HOME/agentserver/history (mode 0600) without lines that begin with a space or hold a secret that the
    configuration took from the environment or a file.

    Fed from standard input it is a script: the next line is read when the message before it is done, and exit code 0
    means that every message was answered without an error.

    At the end of every session what runs has the time of limits.drain; what is not finished then goes on with the next
    start, if there is a journal. A second signal ends the process at once, and loses no more.

    What needs an approval is asked here: at a prompt, or where there is a journal, into which agentserver approve and
    agentserver deny write answers. A script without a journal is refused what needs one. A script may answer what waits
    with /approve, and waits at its end for what is not answered.

    With --reload a change of the project's files, or a SIGHUP, loads ORGANISM again: what runs finishes in the old
    code, everything else goes on in the new. Watching files needs the extra reload. When something is wrong with what
    is loaded, or it changes what a running server cannot, that is said and nothing changes.
    """
    hangups = Hangups()
    server = project.server(ctx, project.load(ctx, organism), durable=True)
    ending = session.ending_of(server)
    opened = opened_console(server, ending)

    async def console_session() -> int:
        again = hangups.reloading(server, server.organism.files[0])
        beside = again if reloads else contextlib.nullcontext()
        async with server, session.followed(server), beside:
            return await opened()

    with hangups if reloads else contextlib.nullcontext():
        session.run(ctx, ending, console_session)


def opened_console(server: Server, ending: GracefulEnd) -> Callable[[], Awaitable[int]]:
    """A console on a server. What it gives is awaited while the server runs, and gives the status of the session."""
    import anyio

    from agentserver.gateways.console.console import Console
    from agentserver.supervision import Ending, start_errand
    from agentserver.trace.terminal import Screen, columns_of, wants_colour

    _escape(sys.stdout)
    width = partial(columns_of, sys.stdout)
    screen = Screen(wants_colour(sys.stdout, os.environ), partial(_redacted, server), columns=width)
    console = Console(
        server,
        screen,
        interactive=sys.stdin.isatty(),
        principal=project.principal(server.organism),
        by=project.user(),
        ending=ending,
    )
    if console.interactive or server.durable:
        server.approver = console.approvals
    if console.interactive:
        _greet(console, server, screen)
    lines, above = _lines(console, server, screen)

    async def run() -> int:
        async with anyio.create_task_group() as tasks:
            for handle in await _fetch(server, screen):
                following = partial(_follow, handle, server, screen)
                start_errand(tasks, "follows an earlier conversation", Ending.OWNER, following)
            with above:
                status = await console.run(lines)
            tasks.cancel_scope.cancel()
        await screen.flush()
        if screen.unwritten is not None:
            raise screen.unwritten
        return status

    return run


def _redacted(server: Server, text: str) -> str:
    """A text without the secrets of the present edition, and of those before."""
    return server.organism.secrets.redact(text)


async def _fetch(server: Server, screen: Screen) -> list[ServerHandle]:
    """Show what left earlier conversations after, or just before, their console was gone; gives those not at rest."""
    me = project.principal(server.organism)
    followed = []
    for key in await server.left_over(me):
        handle = await server.resume(me, key)
        while await handle.fetch():
            for event in handle.waiting():
                await _show(event, server, screen)
        conversation = server.conversation(key)
        if conversation is not None and conversation.requests:
            followed.append(handle)
        else:
            handle.detach()
    return followed


async def _follow(handle: ServerHandle, server: Server, screen: Screen) -> None:
    """Show what still comes of an earlier conversation, which no gateway goes on with."""
    async for event in handle.events():
        await _show(event, server, screen)


async def _show(event: Reply | Done, server: Server, screen: Screen) -> None:
    """Show what an earlier conversation led to, and wait until it is written: then it counts as taken."""
    from agentserver.core.messages import Reply
    from agentserver.gateways.console import view

    again = ", perhaps again" if event.redelivered else ""
    if isinstance(event, Reply):
        screen.say(f"from conversation {event.conversation}{again}:")
        codecs = server.rules.codecs
        screen.show(*view.reply_lines(event, codecs, raw=False, redact=screen.redact))
    elif not event.answered:
        screen.say(f"from conversation {event.conversation}{again}: ended without an answer")
    await screen.flush()


def _greet(console: Console, server: Server, screen: Screen) -> None:
    """Begin an interactive session, in which hops are seen and need not be logged."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(without_hops)
    screen.say(console.greeting(server.organism.name))


def _escape(stream: object) -> None:
    """Let a stream that cannot encode a character write it escaped."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _lines(console: Console, server: Server, screen: Screen) -> tuple[Lines, AbstractContextManager[None]]:
    """A prompt on a capable terminal with the ``console`` extra, else plain lines."""
    from agentserver.gateways.console.lines import PlainLines

    both = sys.stdin.isatty() and sys.stdout.isatty()
    plain = PlainLines(sys.stdin.fileno(), screen.prompt if both else None)
    if not both or os.environ.get("TERM", "dumb") == "dumb":
        return plain, contextlib.nullcontext()
    if not installed("console"):
        screen.say(
            f"There is no history and no completion: they need the extra console ({installing('console')})."
        )
        return plain, contextlib.nullcontext()
    from agentserver.gateways.console.prompt import ListenerCompleter, PromptLines, history

    past, trouble = history(history_file(os.environ), server.organism.secrets.redact)
    if trouble:
        screen.say(trouble)
    prompt = PromptLines(ListenerCompleter(console.takers, console.ids), past)
    return prompt, prompt.above()


def history_file(environ: Mapping[str, str]) -> Path | None:
    """The path of the history (XDG Base Directory Specification: a relative path counts as unset)."""
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if state.is_absolute():
        return state / "agentserver" / "history"
    home = Path(environ.get("HOME", ""))
    return home / ".local" / "state" / "agentserver" / "history" if home.is_absolute() else None
