"""A group of verbs, and the words about one that it does not have.

Refuses to know a verb.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

import click

FEW: Final = 12
"""Verbs of a group that an error names one by one."""


class Verbs(click.Group):
    """A group whose error names the nearest verb to what was typed, or where none is near, all of a few."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that is meant. Raises click.UsageError where there is none of this name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            known = self.list_commands(ctx)
            near = get_close_matches(args[0], known, 1)
            if not near and len(known) > FEW:
                raise
            more = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
            raise click.UsageError(f"{error.message} {more}", error.ctx) from None
