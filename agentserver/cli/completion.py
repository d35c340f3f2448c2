"""``agentserver completion``: the script by which a shell completes verbs, options, listeners and their fields.

Owns nothing but the choice of the shell; click makes the script, and ``fields`` knows what a listener takes.
"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_AGENTSERVER_COMPLETE"


@click.command("completion", short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(agentserver completion bash)"           in ~/.bashrc
    zsh:   eval "$(agentserver completion zsh)"            in ~/.zshrc
    fish:  agentserver completion fish | source            in config.fish
    """  # noqa: D301 - click's mark for lines to leave as they are
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "agentserver", VARIABLE).source())
