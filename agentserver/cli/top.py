"""``agentserver top``: what a running server is doing, followed from another shell.

Owns the choice between a screen for people and lines for programs. What is told is the server's.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.reading import journal_option
from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

_ANEW = "\x1b[H\x1b[J"
"""Home, and everything from there on erased."""


@click.command("top", short_help="Follow what a running server is doing.")
@journal_option
@click.option("--once", is_flag=True, help="Show the present moment and end.")
@click.pass_context
def command(ctx: click.Context, organism: Path | None, journal: Path | None, *, once: bool) -> None:
    """Follow the server that runs an organism: conversations, queues, running handlers, refusals, approvals.

    On a terminal the screen is drawn again each second, until Ctrl-C or the end of the server. Piped it is for
    programs: one JSON object a line, each second.

    run and serve listen at a Unix socket beside the journal, or beside the YAML of an organism that keeps none. Only
    the user who runs the server can connect, and root.
    """
    from agentserver.gateways import top

    path = _place(ctx, organism, journal)
    try:
        peer = top.connected(path)
    except (FileNotFoundError, ConnectionRefusedError):
        project.refuse(ctx, f"{path}: no server runs here (agentserver run or agentserver serve starts one)")
    except OSError as error:
        project.refuse(ctx, f"{path}: {error.strerror or error}")
    with peer:
        for line in _lines(peer):
            _show(line)
            if once:
                return
    if sys.stdout.isatty():
        project.say("the server has ended", err=True)


def _place(ctx: click.Context, organism: Path | None, journal: Path | None) -> Path:
    """The socket of the server that is meant."""
    from agentserver.cli.reading import located
    from agentserver.gateways import top

    if journal is None and project.found(organism) is not None:
        file = project.located(organism)
        seen = project.glimpse(ctx, file)
        if seen.unkept or seen.engine is not None:
            return top.beside(file.resolve())
    return top.beside(located(ctx, organism, journal))


def _lines(peer: socket.socket) -> Iterator[str]:
    with peer.makefile(encoding="utf-8") as stream:
        yield from stream


def _show(line: str) -> None:
    from agentserver.gateways import top
    from agentserver.trace.terminal import columns_of, paint, wants_colour, wrap

    if not sys.stdout.isatty():
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    colour, width = wants_colour(sys.stdout, os.environ), columns_of(sys.stdout) or 80
    pieces = (
        piece for each in top.lines(parse_json_or_raise(line, JsonLimits())) for piece in wrap(each, width)
    )
    sys.stdout.write(_ANEW + "".join(f"{paint(piece, colour=colour)}\n" for piece in pieces))
    sys.stdout.flush()
