"""Finds, loads and builds the organism of a command, and reports why it cannot be used."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from agentserver.cli import process
from agentserver.cli.process import ExitCode, Logging, configure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from agentserver.assembly import Server
    from agentserver.config import Organism
    from agentserver.config.findings import ConfigMistake
    from agentserver.config.glimpse import OrganismPreview
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.guard import Rules

FEW: Final = 12
"""Largest number of verbs that an error lists."""


class Verbs(click.Group):
    """Group whose error names the verb nearest to the mistyped one, or all of a few."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the verb. Raises click.UsageError for an unknown name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            known = self.list_commands(ctx)
            near = get_close_matches(args[0], known, 1)
            if not near and len(known) > FEW:
                raise
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
            raise click.UsageError(f"{error.message} {hint}", error.ctx) from None


F = TypeVar("F", bound="Callable[..., Any]")

DEFAULTS = (Path("config/organism.yaml"), Path("organism.yaml"))
PRINCIPALS = ("console", "operator", "principal")
"""Principals of ``run`` and ``call``: the first one that is not the name of a listener."""

HIDDEN = "agentserver.hidden"
"""Key of the click context for the known secrets."""
PREVIEWS = "agentserver.previews"
"""Key of the click context for the organisms of ``read_glimpse``, by file."""
SECRETS = "agentserver.secrets"
"""Key of the click context for the function that redacts secrets."""

_UNWRITABLE = frozenset({errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO})

FILE: Final = click.Path(path_type=Path, dir_okay=False)
"""Type of an argument that names a file."""

TOKEN: Final = "AGENTSERVER_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token, if no file is named."""

token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help=f"File with the token; by default the variable {TOKEN}.",
)

output_option = click.option("-o", "--output", type=FILE, help="Write to this file.")


def add_organism_argument(function: F) -> F:
    """Add the organism as a positional argument."""
    return click.argument("organism", type=FILE, required=False)(function)


def add_organism_option(function: F) -> F:
    """Add the organism as an option."""
    return click.option(
        "--organism",
        type=FILE,
        help="Organism file; by default config/organism.yaml, then organism.yaml.",
    )(function)


def read_token(file: Path | None) -> str:
    """Read the token for a door from a file, by default from the environment. Ends the command without a token."""
    try:
        found = os.environ.get(TOKEN, "") if file is None else file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        refuse(f"{file}: contains no readable token")
    if not found and file is not None:
        refuse(f"{file}: is empty; it should contain the token that agentserver principals add has printed")
    if not found:
        refuse(f"a token is needed: set {TOKEN}, or name a file with --token-file")
    return found


def find_organism(path: Path | None) -> Path | None:
    """Find the organism's file, named or in the default places; None if not found."""
    return path or next((default for default in DEFAULTS if is_file(default)), None)


def find_organism_or_raise(path: Path | None) -> Path:
    """Find the organism's file. Raises click.UsageError if it is neither named nor found."""
    file = find_organism(path)
    if file is None:
        names = " or ".join(map(str, DEFAULTS))
        raise click.UsageError(
            next(
                (reason for reason in map(_explain_unreadable, DEFAULTS) if reason),
                f"there is no {names} here; name a file, or begin with: agentserver init DIR",
            )
        )
    return file


def is_file(path: Path) -> bool:
    """Check whether a path is a plain, reachable file; unlike with pathlib, a closed folder is no error."""
    return os.path.isfile(path)  # noqa: PTH113


def _explain_unreadable(path: Path) -> str:
    """Explain why a path cannot be read; empty if nothing is there."""
    try:
        return "" if stat.S_ISREG(path.stat().st_mode) else f"{path} exists, but is not a plain file"
    except (FileNotFoundError, NotADirectoryError):
        return f"{path} is a symbolic link to a missing file" if path.is_symlink() else ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"


def set_up_logging(secrets: Secrets) -> None:
    """Set up logging, and redact these secrets and earlier ones from logs and errors of the command."""
    ctx = click.get_current_context()
    before = ctx.meta.get(HIDDEN)
    combined = ctx.meta[HIDDEN] = secrets if before is None else before.also(secrets)
    configure(ctx.obj if isinstance(ctx.obj, Logging) else Logging(), combined)
    ctx.meta[SECRETS] = combined.redact


def read_glimpse(path: Path) -> OrganismPreview:
    """Read what can be read of an organism that may not load, once in a command.

    Runs none of its code; sets up logging.
    """
    from agentserver.config import glimpse

    previews: dict[Path, OrganismPreview] = find_shared_values().setdefault(PREVIEWS, {})
    if path not in previews:
        previews[path] = glimpse.read_glimpse(path, os.environ)
        set_up_logging(previews[path].secrets)
    return previews[path]


def load(path: Path | None) -> Organism:
    """Load and check the organism, and set up logging. Raises ConfigError."""
    from agentserver import config
    from agentserver.config.yaml.secrets import Secrets

    set_up_logging(Secrets())
    organism = config.load(find_organism_or_raise(path), environ=os.environ)
    set_up_logging(organism.secrets)
    return organism


def build_server(organism: Organism, *, durable: bool = False, recorded: bool = False) -> Server:
    """Build the organism's server without starting it. Raises PayloadError; ends the command without a wall.

    ``durable`` uses the organism's journal, otherwise memory. ``recorded`` records handoffs even without
    ``durable``.
    """
    from agentserver.assembly import build
    from agentserver.extras import require

    if durable or recorded:  # it is going to run
        lacking = [*map(str, find_missing_walls(organism))]
        if lacking:
            refuse(*lacking)
        if organism.mcp:
            require("mcp:", "mcp")
        if organism.models is not None:
            from agentserver.llm.completer import check_extra  # most organisms have none

            check_extra(organism.models)
    built = build(organism, durable=durable, recorded=recorded)
    process.collect_as_usual()
    return built


def build_rules(organism: Organism) -> Rules:
    """Build the rules of the organism. Raises PayloadError when they contradict each other."""
    from agentserver import rulebook

    return rulebook.build_rules(organism)


def build_rules_or_none(path: Path | None) -> Rules | None:
    """Build the rules of the organism that is named or found here; None without an organism that loads."""
    from agentserver import config, rulebook
    from agentserver.payload.xmlify import PayloadError

    file = find_organism(path)
    try:
        return None if file is None else rulebook.build_rules(config.load(file, environ=os.environ))
    except (config.ConfigError, PayloadError):
        return None


def choose_principal(organism: Organism) -> str:
    """Choose the principal of the command line: a common one, or the user if approvals depend on it.

    Ends the command if the user's name cannot be a principal.
    """
    from agentserver.core.state import principals

    reserved = principals.reserved_looks(bound.listener.name for bound in organism.listeners)
    rules = (bound.listener.approval for bound in organism.listeners)
    if "others" in {organism.limits.approvers, *(rule.approvers for rule in rules if rule is not None)}:
        reason = principals.explain_unfit(name_user(), reserved)
        if reason:
            refuse(f"approvers: others: the name of this user, {name_user()}, {reason}")
        return name_user()
    free = (f"{PRINCIPALS[-1]}-{number}" for number in range(len(reserved) + 1))
    return next(name for name in (*PRINCIPALS, *free) if not principals.explain_unfit(name, reserved))


def name_user() -> str:
    """Name the owner of this process, for the record, even if the environment names another user."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def find_shared_values() -> dict[str, Any]:
    """Return the values that the functions of the running command share."""
    return click.get_current_context().meta


def exit_command(status: int) -> NoReturn:
    """End the command with an exit code."""
    click.get_current_context().exit(status)


def refuse(*lines: str) -> NoReturn:
    """Print why the command is refused, and end it."""
    redact = find_shared_values().get(SECRETS, str)
    say(*map(redact, lines), err=True)
    exit_command(ExitCode.UNUSABLE)


REPORTABLE: Final = (
    ("agentserver.config", "ConfigError"),
    ("agentserver.core.encoding.codecs", "UnreadableError"),
    ("agentserver.core.encoding.history", "UnrecordedError"),
    ("agentserver.extras", "MissingExtraError"),
    ("agentserver.payload.fields.field_table", "PayloadError"),
    ("agentserver.ports", "EngineError"),
    ("agentserver.telemetry.export", "UnusableProxyError"),
    ("agentserver.worker.remote_host", "WorkerRejectedError"),
    ("agentserver.worker.wall.raising", "WallError"),
    ("sqlite3", "Error"),
)
"""Errors of every verb whose message is for its user, by module. A module that is not imported raised none."""


def list_reportable() -> tuple[type[BaseException], ...]:
    """List the kinds of reportable errors whose modules are imported, and the kind of their groups as the last."""
    loaded = (getattr(sys.modules[module], name) for module, name in REPORTABLE if module in sys.modules)
    return (*loaded, BaseExceptionGroup)


def find_reason(error: BaseException) -> tuple[str, ...]:
    """Find the lines that tell a user why a verb failed; none for a defect.

    For a group of errors that all have a reason, it is the reason of the first one. Raises that one if it is an
    OSError because the output cannot be written.
    """
    kinds = list_reportable()[:-1]
    if isinstance(error, BaseExceptionGroup):
        known, other = error.split(lambda each: isinstance(each, kinds) or is_output_error(each))
        if known is None or other is not None:
            return ()
        error = known
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if is_output_error(error):
            raise error from None
    if not isinstance(error, kinds):
        return ()
    if hasattr(error, "findings"):
        return tuple(each.format_with_code() for each in error.findings)
    stored = type(error).__module__ == "sqlite3"
    return (f"the journal cannot be read: {error}" if stored else str(error),)


@contextmanager
def refuse_on(*kinds: type[Exception], prefix: str = "") -> Iterator[None]:
    """Refuse the command with the message of such an error, or what the system says of an OSError."""
    try:
        yield
    except kinds as error:
        refuse(f"{prefix}{(isinstance(error, OSError) and error.strerror) or error}")


def is_output_error(error: BaseException) -> bool:
    """Check whether an error comes from an output stream whose disk is full or whose reader is gone."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE


def say(*lines: str, err: bool = False) -> None:
    """Print lines with control characters escaped, since they may repeat user input."""
    from agentserver.characters.printing import one_line

    for each in lines:
        click.echo(one_line(each), err=err)


def complete_listener_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a listener's name from the organism's files. Runs no code of the organism."""
    del param
    try:
        path = find_organism_or_raise(ctx.params.get("organism"))
    except click.UsageError:
        return []
    return sorted(name for name in iter_declared_names(path) if name.startswith(incomplete))


def iter_declared_names(path: Path) -> Iterator[str]:
    """Yield the listeners in an organism's files, which may be broken. Runs no code of the organism."""
    from agentserver.config.findings import Mistakes
    from agentserver.config.yaml.sources import Sources, find_project_directory

    sources = Sources(find_project_directory(path), os.environ, Mistakes())
    sources.read(path)
    entries = (entry for each in sources.documents for entry in each.data.get("listeners") or ())
    return (str(entry.get("name")) for entry in entries if isinstance(entry, dict))


def write(path: Path | None, text: str, *, private: bool = False) -> None:
    """Write a file, or standard output if no file is named. Ends the command on failure.

    A ``private`` file holds messages: it has mode 0600 from its first byte, replaces an existing file
    atomically, and does not follow a symbolic link.
    """
    if path is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    with refuse_on(OSError, prefix=f"{path}: "):
        path.parent.mkdir(parents=True, exist_ok=True)
        if private and not path.is_symlink() and (path.is_file() or not path.exists()):
            _replace(path, text)
        elif private and path.is_file():
            refuse(f"{path}: is a symbolic link; name the file itself")
        else:
            path.write_text(text, encoding="utf-8")


def _replace(path: Path, text: str) -> None:
    """Write a new file of mode 0600 and rename it to the path."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with ExitStack() as stack:
        stack.callback(Path(name).unlink, missing_ok=True)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
        stack.pop_all()


def find_missing_walls(organism: Organism) -> Iterator[ConfigMistake]:
    """Report handlers and programs whose isolation this machine cannot provide."""
    sources = {bound.listener.name: bound.source for bound in organism.listeners}
    requirements = [
        (bound.source, bool(bound.isolation.ports), False)
        for bound in organism.listeners
        if bound.isolation is not None and not bound.isolation.remote
    ] + [
        (sources[server.tools[0].listener], bool(server.isolation.ports), server.isolation.fork)
        for server in organism.mcp
        if server.isolation is not None and server.tools
    ]
    if not requirements:
        return
    from agentserver.config.findings import ConfigMistake, Severity
    from agentserver.remedies import find_remedy
    from agentserver.remedies.configuration import ConfigCode
    from agentserver.worker.wall.raising import list_missing

    code = find_remedy("wall", "lacks") or ConfigCode.ISOLATION.value

    for place, ports, fork in requirements:
        for lacking in list_missing(ports=ports, fork=fork):
            message = f"this machine lacks {lacking}"
            yield ConfigMistake(code, Severity.ERROR, place.file, place.line, "isolation", message)
