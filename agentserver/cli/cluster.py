"""``agentserver cluster``: what the broker of an organism is told.

Owns the options. Refuses to print a password.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentserver.cli import project
from agentserver.cli.verbs import Verbs


@click.group("cluster", cls=Verbs, short_help="Look after the broker that servers and workers share.")
def command() -> None:
    """Look after the broker that the servers of an organism and its workers on other machines share."""


@command.command("permissions", short_help="Write the broker's users and what each may do.")
@project.organism_argument
@click.option(
    "--credentials",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Where the password of each user is, or is drawn and written: one file for each, of mode 0600.",
)
@click.pass_context
def write(ctx: click.Context, organism: Path | None, credentials: Path) -> None:
    """Write the accounts of the organism for the configuration of a NATS server, to standard output.

    The servers have one user, and the workers of each listener with isolation: remote another, which may pull its
    listener's calls, speak as its listener and hear what is meant for it, and nothing else. Passwords are drawn once;
    what is printed has bcrypt of them. The same organism and folder print the same text.
    """
    from agentserver.broker.address import BrokerError
    from agentserver.broker.passwords import bcrypt, kept
    from agentserver.broker.permissions import configuration, user_of
    from agentserver.config.code.remote import names

    path = project.located(organism)
    name, listeners, mistakes = names(path, os.environ)
    if mistakes:
        project.refuse(ctx, *map(str, mistakes))
    try:
        drawn = {
            user: bcrypt(user, kept(credentials, file, user))
            for user, file in ((user_of(name, each), _file(name, each)) for each in (None, *listeners))
        }
    except BrokerError as error:
        project.refuse(ctx, str(error))
    click.echo(configuration(name, listeners, drawn), nl=False)


def _file(organism: str, listener: str | None) -> str:
    return organism if listener is None else f"{organism}+{listener}"
