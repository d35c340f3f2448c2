"""What verbs that show recorded messages need: the journal, and what in it nobody may read.

Owns where the secrets come from. Refuses to know what is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.journal import own

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.config import Secrets


def journal_and_secrets(
    ctx: click.Context, organism: Path | None, journal: Path | None
) -> tuple[Path, Secrets]:
    """The journal that is meant, and the secrets of the organism that is named or found here.

    A journal can be looked into where there is no organism; that its secrets are then not known is said on standard
    error. Ends the command when there is an organism that cannot be loaded, or no journal.
    """
    from agentserver.config import Secrets

    nowhere = organism is None and not any(default.is_file() for default in project.DEFAULTS)
    if journal is not None and nowhere:
        click.echo(
            "no organism is known here, so its secrets are not taken out; name it with --organism", err=True
        )
        return journal, Secrets()
    loaded = project.load(ctx, organism)
    return journal or own(ctx, loaded), loaded.secrets
