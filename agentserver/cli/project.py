"""From the command line to an organism: which file, and what to say when it cannot load.

Owns the options and the messages that verbs share. Refuses to know what an organism is used for.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentserver.cli import collecting
from agentserver.cli.logs import Logging, configure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from agentserver.assembly import Server
    from agentserver.config import Organism
    from agentserver.config.glimpse import Glimpse
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.guard import Rules

F = TypeVar("F", bound="Callable[..., Any]")

DEFAULTS = (Path("config/organism.yaml"), Path("organism.yaml"))
PRINCIPALS = ("console", "operator", "principal")
"""In whose name ``run`` and ``call`` speak: the first that no listener bears."""

HIDDEN = "agentserver.hidden"
"""The key of the context under which the secrets are kept that the command knows."""
SECRETS = "agentserver.secrets"
"""The key of the context under which it is kept what takes the organism's secrets out of a text."""

_UNWRITABLE = frozenset({errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO})
UNUSABLE = 2
"""Exit code when the organism cannot be used."""

_YAML = click.Path(path_type=Path, dir_okay=False)


def organism_argument(function: F) -> F:
    """The organism as a positional argument."""
    return click.argument("organism", type=_YAML, required=False)(function)


def organism_option(function: F) -> F:
    """The organism as an option."""
    return click.option(
        "--organism",
        type=_YAML,
        help="The organism; config/organism.yaml, then organism.yaml, when left out.",
    )(function)


def found(path: Path | None) -> Path | None:
    """The organism's file, named or found here; None when there is none."""
    return path or next((default for default in DEFAULTS if is_file(default)), None)


def located(path: Path | None) -> Path:
    """The organism's file. Raises click.UsageError when none is named and none is found."""
    file = found(path)
    if file is None:
        names = " or ".join(map(str, DEFAULTS))
        raise click.UsageError(
            next(
                (why for why in map(_unfit, DEFAULTS) if why),
                f"there is no {names} here; name a file, or begin with: agentserver init DIR",
            )
        )
    return file


def is_file(path: Path) -> bool:
    """True for a plain file that can be reached; a folder that is closed is no error here, as it is for pathlib."""
    return os.path.isfile(path)  # noqa: PTH113


def _unfit(path: Path) -> str:
    """The reason why what lies at a path cannot be read; empty where nothing does."""
    try:
        return "" if stat.S_ISREG(path.stat().st_mode) else f"{path} is there, and is no plain file"
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} is a symbolic link that leads nowhere" if path.is_symlink() else ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"


def log_without(ctx: click.Context, secrets: Secrets) -> None:
    """Take these secrets, and those of before, out of log and errors of the command; sets logging up on the way."""
    before = ctx.meta.get(HIDDEN)
    every = ctx.meta[HIDDEN] = secrets if before is None else before.also(secrets)
    configure(ctx.obj if isinstance(ctx.obj, Logging) else Logging(), every)
    ctx.meta[SECRETS] = every.redact


def glimpse(ctx: click.Context, path: Path) -> Glimpse:
    """Read as much as possible of an organism that may not load. Runs none of its code; sets logging up on the way."""
    from agentserver.config import glimpse as reading

    seen = reading.glimpse(path, os.environ)
    log_without(ctx, seen.secrets)
    return seen


def load(ctx: click.Context, path: Path | None, *, policy: Path | None = None) -> Organism:
    """The organism, checked; logging is set up on the way. Ends the command when there are mistakes.

    ``policy`` is a file in place of all that the organism says of provenance.
    """
    from agentserver import config
    from agentserver.config.yaml.secrets import Secrets

    log_without(ctx, Secrets())
    try:
        organism = config.load(located(path), environ=os.environ, policy=policy)
    except config.ConfigError as error:
        refuse(ctx, *(each.coded() for each in error.findings))
    log_without(ctx, organism.secrets)
    return organism


def server(
    ctx: click.Context, organism: Organism, *, durable: bool = False, recorded: bool = False
) -> Server:
    """The organism as a server that is not yet running, on its journal if ``durable``, else in memory.

    ``recorded`` has handoffs on the organism's record all the same.
    Ends the command when it cannot be put together.
    """
    from agentserver.assembly import build
    from agentserver.cli.walls import unwalled
    from agentserver.extras import require
    from agentserver.payload.xmlify import PayloadError

    try:
        if durable or recorded:  # it is going to run
            lacking = [*map(str, unwalled(organism))]
            if lacking:
                refuse(ctx, *lacking)
        if organism.mcp and (durable or recorded):
            require("mcp:", "mcp")
        if organism.models is not None and (durable or recorded):
            from agentserver.llm.completer import check_extra  # most organisms have none

            check_extra(organism.models)
        built = build(organism, durable=durable, recorded=recorded)
    except PayloadError as error:
        refuse(ctx, str(error))
    collecting.settled()
    return built


def rules(ctx: click.Context, organism: Organism) -> Rules:
    """The rules by which the organism's conversations decide. Ends the command when they make no sense together."""
    from agentserver import rulebook
    from agentserver.payload.xmlify import PayloadError

    try:
        return rulebook.rules(organism)
    except PayloadError as error:
        refuse(ctx, str(error))


def principal(organism: Organism) -> str:
    """The name under which the command line opens conversations: one for all, or where it matters, the user's.

    Raises click.ClickException when it matters and the user's name is none that a principal can bear.
    """
    from agentserver.core.state import principals

    taken = principals.taken(bound.listener.name for bound in organism.listeners)
    if organism.limits.approvers != "anyone":
        why = principals.unfit(user(), taken)
        if why:
            raise click.ClickException(f"limits.approvers: the name of this user, {user()}, {why}")
        return user()
    free = (f"{PRINCIPALS[-1]}-{number}" for number in range(len(taken) + 1))
    return next(name for name in (*PRINCIPALS, *free) if not principals.unfit(name, taken))


def user() -> str:
    """The author of a command, for the record: the owner of this process, even when the environment names another."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def refuse(ctx: click.Context, *lines: str) -> NoReturn:
    """Say why the organism cannot be used, or what was asked not be done, and end the command."""
    redact = ctx.meta.get(SECRETS, str)
    for each in lines:
        say(redact(each), err=True)
    ctx.exit(UNUSABLE)


def unwritable(error: BaseException) -> bool:
    """True for what a stream raises that can take no more: its disk is full, or nobody reads."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE


def say(text: str, *, err: bool = False) -> None:
    """Print one line, which may name files and repeat what was typed: nothing in it is a terminal's to act on."""
    from agentserver.characters.printing import one_line

    click.echo(one_line(text), err=err)


def listener_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For completion: the names in the organism's files. Runs no code of the organism."""
    del param
    try:
        path = located(ctx.params.get("organism"))
    except click.UsageError:
        return []
    return sorted(name for name in declared(path) if name.startswith(incomplete))


def declared(path: Path) -> Iterator[str]:
    """The names of the listeners in an organism's files, which may be broken. Runs no code of the organism."""
    from agentserver.config.findings import Mistakes
    from agentserver.config.yaml.sources import Sources, project_directory

    sources = Sources(project_directory(path), os.environ, Mistakes())
    sources.read(path)
    entries = (entry for each in sources.documents for entry in each.data.get("listeners") or ())
    return (str(entry.get("name")) for entry in entries if isinstance(entry, dict))


def write(path: Path | None, text: str, *, private: bool = False) -> None:
    """Write a file, or standard output when no file is named. Raises click.ClickException when that fails.

    A ``private`` file holds what messages say: it is the owner's alone from its first byte on, and takes the place of
    a file of that name whole, without following a symbolic link.
    """
    if path is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if private and not path.is_symlink() and (path.is_file() or not path.exists()):
            _replace(path, text)
        elif private and path.is_file():
            raise click.ClickException(f"{path}: is a symbolic link; name the file itself")
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _replace(path: Path, text: str) -> None:
    """Write a new file of mode 0600 and put it where the path says."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with ExitStack() as stack:
        stack.callback(Path(name).unlink, missing_ok=True)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
        stack.pop_all()
