"""The needs of verbs that show recorded messages: the journal, and the secrets in it that are not for reading.

Owns where the secrets come from, and that nothing is shown while they are not known. Refuses to know what is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import project
from agentserver.cli.journal import journal_option, located

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agentserver.config import Secrets

F = TypeVar("F", bound="Callable[..., Any]")

UNREDACTED = "agentserver.unredacted"
"""The key of the context under which it is kept that the user wants to see what may hold secrets."""


def _wanted(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - a callback's signature
    del param
    if value:
        ctx.meta[UNREDACTED] = True


def shown_option(function: F) -> F:
    """Which journal, and whether to show it though secrets may stand in it."""
    wanted = click.option(
        "--unredacted",
        is_flag=True,
        expose_value=False,
        callback=_wanted,
        help="Show it although the organism's files cannot be read, so that not all of its secrets are known.",
    )
    return journal_option(wanted(function))


def journal_and_secrets(
    ctx: click.Context, organism: Path | None, journal: Path | None
) -> tuple[Path, Secrets]:
    """The journal that is meant, and the secrets of the organism that is named or found here.

    The organism need not load, and none of its code runs. Where there is none, that its secrets are not known is said
    on standard error. Ends the command when there is one whose files cannot be read, unless ``--unredacted`` was
    given, and when there is no journal.
    """
    from agentserver.config import Secrets

    file = project.found(organism)
    if file is None:
        path = located(ctx, None, journal)
        told = "no organism is known here, so its secrets are not taken out; name it with --organism"
        click.echo(told, err=True)
        return path, Secrets()
    seen = project.glimpse(ctx, file)
    if seen.unread and not ctx.meta.get(UNREDACTED):
        told = "so not all of its secrets are known, and nothing is shown; --unredacted shows it all the same"
        project.refuse(ctx, *seen.unread.split("\n"), told)
    if seen.unread:
        click.echo(f"{seen.unread}\nnot all of its secrets are known, and taken out", err=True)
    return located(ctx, organism, journal), seen.secrets
