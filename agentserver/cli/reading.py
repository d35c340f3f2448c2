"""The one place from which operators' verbs read what an engine has kept, and learn which of it is secret.

Owns the options that name a journal, where the secrets come from, and that nothing is shown while they are not known.
Refuses to know what is shown, and which engine keeps it.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from agentserver.config.keys.models import Postgres
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.encoding.recorded import RecordedConversation
    from agentserver.core.guard import CoreGuard
    from agentserver.engines.postgres.options import PostgresOptions
    from agentserver.ports import EngineReader

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")

READERS = "agentserver.readers"
"""The key of the context under which a program's own engine is kept."""

UNREDACTED = "agentserver.unredacted"
"""The key of the context under which it is kept that the user wants to see what may hold secrets."""


class EngineOpener(Protocol):
    """Opens an engine to be read."""

    def __call__(self, guards: Sequence[CoreGuard] = (), /) -> AbstractContextManager[EngineReader]:
        """A reader for as long as the context lasts.

        Args:
            guards: those whose memories are kept with the conversations.

        Raises EngineError.
        """
        ...


class Source(NamedTuple):
    """The thing that a verb reads.

    Args:
        path: of the journal's file; None where there is none.
        open: gives a reader of it.
        shared: the database that servers share; None for a file, and for the engine of the program that runs the
            command line.
    """

    path: Path | None
    open: EngineOpener
    shared: PostgresOptions | None = None

    def __str__(self) -> str:
        if self.shared is not None:
            return f"the database (schema {self.shared.schema})"
        return str(self.path or "the engine")


def journal_option(function: F) -> F:
    """Which journal: a file, or the one of an organism."""
    named = click.option(
        "--journal",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The journal's file; the organism's own when left out.",
    )
    return named(project.organism_option(function))


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


def located(ctx: click.Context, organism: Path | None, journal: Path | None) -> Path:
    """The journal's file that is meant: the one that is named, or that of the organism, which need not load.

    Where there is no organism it is the one that a new organism would have. Ends the command when there is none, and
    where a program has given its own engine.
    """
    from agentserver.config.keys.models import Journal

    if journal is not None:
        return journal
    if READERS in ctx.meta:
        project.refuse(ctx, "this needs the file of a journal: name one with --journal")
    default = Path(Journal().path)
    file = project.found(organism)
    if file is None and project.is_file(default):
        return default
    file = project.located(organism)
    seen = project.glimpse(ctx, file)
    if seen.engine is not None:
        project.refuse(
            ctx, "the organism's conversations are in a database: this needs the file of a journal"
        )
    if seen.unkept:
        project.refuse(ctx, "the organism keeps no journal; name one with --journal")
    if seen.journal is None:
        told = seen.astray or seen.unread or f"{file}: journal: it cannot be read"
        more = "which journal the organism has is not known: name it with --journal"
        project.refuse(ctx, *told.split("\n"), more)
    return seen.journal


def source(ctx: click.Context, organism: Path | None, journal: Path | None) -> Source:
    """The thing that a verb reads: a journal that is named, the engine of the program, or that of the organism.

    Ends the command when there is none.
    """
    from agentserver.engines.sqlite.reading import reading as reading_file

    readers = ctx.meta.get(READERS)
    if readers is not None and journal is None:
        return Source(None, readers)
    file = project.found(organism) if journal is None else None
    keys = None if file is None else project.glimpse(ctx, file).engine
    if keys is not None:
        return _database(keys)
    path = located(ctx, organism, journal)
    return Source(path, partial(reading_file, path))


def _database(keys: Postgres) -> Source:
    """The database of an organism. Raises MissingExtraError."""
    from agentserver.assembly import postgres_options

    options = postgres_options(keys)
    from agentserver.engines.postgres import command as database  # with an extra that most do without

    return Source(None, partial(database.reading, options), options)


@contextmanager
def reading(ctx: click.Context, kept: Source, guards: Sequence[CoreGuard] = ()) -> Iterator[EngineReader]:
    """A reader of it, while a server may be writing. What cannot be read ends the command."""
    with refusing(ctx), kept.open(guards) as reader:
        yield reader


@contextmanager
def refusing(ctx: click.Context) -> Iterator[None]:
    """End the command with what the journal could not do."""
    import sqlite3

    from agentserver.core.encoding.recorded import UnrecordedError
    from agentserver.core.encoding.snapshot import UnreadableError
    from agentserver.ports import EngineError

    try:
        yield
    except (EngineError, UnreadableError, UnrecordedError) as error:
        project.refuse(ctx, str(error))
    except sqlite3.Error as error:
        project.refuse(ctx, f"the journal cannot be read: {error}")


def source_and_secrets(
    ctx: click.Context, organism: Path | None, journal: Path | None
) -> tuple[Source, Secrets]:
    """The thing that a verb reads, and the secrets of the organism that is named or found here.

    The organism need not load, and none of its code runs. Where there is none, that its secrets are not known is said
    on standard error. Ends the command when there is one whose files cannot be read, unless ``--unredacted`` was
    given, and when there is nothing to read.
    """
    from agentserver.config.yaml.secrets import Secrets

    file = project.found(organism)
    if file is None:
        kept = source(ctx, None, journal)
        told = "no organism is known here, so its secrets are not taken out; name it with --organism"
        click.echo(told, err=True)
        return kept, Secrets()
    seen = project.glimpse(ctx, file)
    if seen.unread and not ctx.meta.get(UNREDACTED):
        told = "so not all of its secrets are known, and nothing is shown; --unredacted shows it all the same"
        project.refuse(ctx, *seen.unread.split("\n"), told)
    if seen.unread:
        click.echo(f"{seen.unread}\nnot all of its secrets are known, and taken out", err=True)
    return source(ctx, organism, journal), seen.secrets


def legible(reader: EngineReader, read: Callable[[str], T]) -> Iterator[T]:
    """Read each conversation at work. One that cannot be read, or is aside, is left out and mentioned."""
    from agentserver.core.encoding.snapshot import UnreadableError

    for key in reader.active():
        try:
            found = read(key)
        except UnreadableError as error:
            project.say(f"left out: conversation {key}: {error}", err=True)
        else:
            yield found
    aside = len(reader.aside())
    if aside:
        project.say(f"left out: {aside} set aside, which agentserver journal aside lists", err=True)


def recorded_conversation(reader: EngineReader, conversation: str) -> RecordedConversation:
    """The steps of a conversation. Raises UnreadableError also for one that went after it was listed."""
    from agentserver.core.encoding.recorded import UnrecordedError
    from agentserver.core.encoding.snapshot import UnreadableError

    try:
        return reader.recorded_conversation(conversation)
    except UnrecordedError:
        raise
    except LookupError:
        raise UnreadableError(f"conversation {conversation} is not kept any more") from None


def one_conversation(ctx: click.Context, reader: EngineReader, prefix: str) -> str:
    """The conversation whose id begins so. Ends the command unless there is exactly one."""
    return the_only(ctx, reader.find(prefix), f"conversations begin with {prefix!r}")


def the_only(ctx: click.Context, found: Sequence[T], what: str) -> T:
    """The one thing that was found. Ends the command unless there is exactly one; ``what`` says of what and by what."""
    if len(found) != 1:
        project.refuse(ctx, f"{len(found) or 'no'} {what}")
    return found[0]


def when(at: float | None) -> str:
    """A time as people read it."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
