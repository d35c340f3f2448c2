"""Opens what reading verbs show: the journal, database or engine, and the secrets to redact from it."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from agentserver.cli import project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from agentserver.config.glimpse import Glimpse
    from agentserver.config.keys.models import Postgres
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.encoding.history import RecordedConversation
    from agentserver.core.guard import CoreGuard
    from agentserver.engines.postgres.connection import PostgresOptions
    from agentserver.ports import EngineReader

    Verb: TypeAlias = Callable[..., object]
    """Function of a command."""

T = TypeVar("T")

READERS = "agentserver.readers"
"""Key of the click context for the program's own engine."""

MIN_ID = 6
"""Shortest beginning of an id that a decision may name, so that a typing mistake matches nothing."""

PICKUP = "a running server reads it within about a second, a stopped one when it starts"
"""When a decision that was left in the journal takes effect."""

UNREDACTED = "agentserver.unredacted"
"""Key of the click context for the user's consent to see secrets."""


class EngineOpener(Protocol):
    """Function that opens an engine for reading."""

    def __call__(self, guards: Sequence[CoreGuard] = (), /) -> AbstractContextManager[EngineReader]:
        """Open a reader for as long as the context lasts. Raises EngineError.

        Args:
            guards: those whose memory is stored with the conversations.
        """


class Source(NamedTuple):
    """Journal, database or engine that a verb reads.

    Args:
        path: the journal's file; None for a database or a program's own engine.
        open: opens a reader.
        shared: the database that servers share; None for a file or a program's own engine.
    """

    path: Path | None
    open: EngineOpener
    shared: PostgresOptions | None = None

    def __str__(self) -> str:
        if self.shared is not None:
            return f"the database (schema {self.shared.schema})"
        return str(self.path or "the engine")


class JournalArguments(NamedTuple):
    """Files that a verb was given to name a journal; None for an omitted one."""

    organism: Path | None = None
    journal: Path | None = None


def journal_option(function: Verb) -> Verb:
    """Add the options that name a journal: its file, or the organism. The verb takes them as its first argument.

    The options may also precede the verb, if its group has them.
    """

    @wraps(function)
    def verb(*, organism: Path | None, journal: Path | None, **options: Any) -> object:
        parent = click.get_current_context().parent
        outer = {} if parent is None else parent.params
        arguments = JournalArguments(organism or outer.get("organism"), journal or outer.get("journal"))
        return function(arguments, **options)

    decorated = click.option(
        "--journal",
        type=project.FILE,
        help="Journal file; the organism's own by default.",
    )
    return decorated(project.organism_option(verb))


def _show_unredacted(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - a callback's signature
    del param
    if value:
        ctx.meta[UNREDACTED] = True


def redaction_option(function: Verb) -> Verb:
    """Add the options that name a journal, and the one that shows it with secrets."""
    decorated = click.option(
        "--unredacted",
        is_flag=True,
        expose_value=False,
        callback=_show_unredacted,
        help="Show it even if the organism's files cannot be read, so that not all secrets are known and redacted.",
    )
    return journal_option(decorated(function))


def find_journal(arguments: JournalArguments) -> Path:
    """Find the journal's file: the named one, or that of the organism, which need not load.

    Without an organism, the default path of a new one is used. Ends the command when there is no file, and when
    a program uses its own engine.
    """
    from agentserver.config.keys.models import Journal

    if arguments.journal is not None:
        return arguments.journal
    if READERS in project.shared_values():
        project.refuse("this needs a journal file: name one with --journal")
    default = Path(Journal().path)
    file = project.find_organism(arguments.organism)
    if file is None and project.is_file(default):
        return default
    file = project.find_organism_or_raise(arguments.organism)
    seen = project.glimpse(file)
    if seen.engine is not None:
        project.refuse("the organism keeps its conversations in a database: this needs a journal file")
    if seen.unkept:
        project.refuse("the organism keeps no journal; name one with --journal")
    return journal_of(seen, file)


def journal_of(seen: Glimpse, file: Path) -> Path:
    """Return the journal that an organism's file names. Ends the command if that cannot be read."""
    if seen.journal is None:
        reason = seen.astray or seen.unread or f"{file}: journal: it cannot be read"
        hint = "which journal the organism has is not known: name it with --journal"
        project.refuse(*reason.split("\n"), hint)
    return seen.journal


def find_source(arguments: JournalArguments) -> Source:
    """Find what a verb reads: a named journal, the program's engine, or that of the organism.

    Ends the command if it finds no source.
    """
    from agentserver.engines.sqlite.file import read_journal as open_file

    readers = project.shared_values().get(READERS)
    if readers is not None and arguments.journal is None:
        return Source(None, readers)
    file = project.find_organism(arguments.organism) if arguments.journal is None else None
    keys = None if file is None else project.glimpse(file).engine
    if keys is not None:
        return _database(keys)
    path = find_journal(arguments)
    return Source(path, partial(open_file, path))


def _database(keys: Postgres) -> Source:
    """Describe the database of an organism. Raises MissingExtraError."""
    from agentserver.assembly import postgres_options

    options = postgres_options(keys)
    from agentserver.engines.postgres import operations as database  # needs an extra

    return Source(None, partial(database.reading, options), options)


@contextmanager
def open_reader(source: Source, guards: Sequence[CoreGuard] = ()) -> Iterator[EngineReader]:
    """Open a reader, also while a server writes. An unreadable source ends the command."""
    with report_storage_errors(), source.open(guards) as reader:
        yield reader


@contextmanager
def open_given(arguments: JournalArguments, guards: Sequence[CoreGuard] = ()) -> Iterator[EngineReader]:
    """Open what a verb reads (``find_source``, ``open_reader``)."""
    with open_reader(find_source(arguments), guards) as reader:
        yield reader


@contextmanager
def open_redacted(arguments: JournalArguments) -> Iterator[tuple[EngineReader, Secrets]]:
    """Open what a verb reads, with the secrets to redact from it (``find_source_and_secrets``)."""
    source, secrets = find_source_and_secrets(arguments)
    with open_reader(source) as reader:
        yield reader, secrets


def print_visible(texts: Iterable[str], redact: Callable[[str], str], *, whole: bool = False) -> None:
    """Print texts without secrets, in lines whose characters are all visible."""
    from agentserver.trace.terminal import visible_lines

    for text in texts:
        for line in visible_lines(redact(text), whole=whole):
            click.echo(line)


def leave(source: Source, put: Callable[[Any, float], T]) -> T:
    """Store an operator's decision durably, or read notes, also while servers use the journal or the database.

    Args:
        source: the journal or database.
        put: uses a connection and the time, which is that of the database's clock where there is one, and returns what
            this function returns.

    Ends the command if the decision cannot be stored.
    """
    from agentserver.engines.sqlite import maintenance

    with report_storage_errors():
        if source.shared is not None:
            from agentserver.engines.postgres.operations import changing, read_time  # needs an extra

            with changing(source.shared) as connection:
                return put(connection, read_time(connection))
        if source.path is not None:
            return maintenance.leave(source.path, lambda connection: put(connection, time.time()))
    return project.refuse("this engine accepts no decisions from the command line")


def read_clock(source: Source) -> float:
    """Read the clock of the servers on a source, in seconds since the epoch: a database's, or this machine's."""
    if source.shared is None:
        return time.time()
    from agentserver.engines.postgres.operations import changing, read_time  # needs an extra

    with report_storage_errors(), changing(source.shared) as connection:
        return read_time(connection)


@contextmanager
def report_storage_errors() -> Iterator[None]:
    """End the command with the message of a storage error."""
    import sqlite3

    from agentserver.core.encoding.history import UnrecordedError
    from agentserver.core.encoding.snapshot import UnreadableError
    from agentserver.ports import EngineError

    try:
        yield
    except (EngineError, UnreadableError, UnrecordedError) as error:
        project.refuse(str(error))
    except sqlite3.Error as error:
        project.refuse(f"the journal cannot be read: {error}")


def find_source_and_secrets(arguments: JournalArguments) -> tuple[Source, Secrets]:
    """Find what a verb reads, and the secrets of the organism that is named or found here.

    The organism need not load, and none of its code runs. Without an organism, a note on standard error says
    that secrets are not redacted. Ends the command when the organism's files cannot be read, unless
    ``--unredacted`` was given, and when there is nothing to read.
    """
    from agentserver.config.yaml.secrets import Secrets

    file = project.find_organism(arguments.organism)
    if file is None:
        source = find_source(arguments)
        note = "no organism is known here, so its secrets are not redacted; name it with --organism"
        click.echo(note, err=True)
        return source, Secrets()
    seen = project.glimpse(file)
    if seen.unread and not project.shared_values().get(UNREDACTED):
        note = "so not all of its secrets are known, and nothing is shown; --unredacted shows it anyway"
        project.refuse(*seen.unread.split("\n"), note)
    if seen.unread:
        click.echo(f"{seen.unread}\nnot all of its secrets are known and redacted", err=True)
    return find_source(arguments), seen.secrets


def read_each(
    reader: EngineReader, read: Callable[[str], T], keys: Sequence[str] | None = None
) -> Iterator[T]:
    """Read each conversation, the active ones by default, and report the unreadable and suspended ones left out."""
    from agentserver.core.encoding.snapshot import UnreadableError

    for key in reader.active() if keys is None else keys:
        try:
            found = read(key)
        except UnreadableError as error:
            project.say(f"left out: conversation {key}: {error}", err=True)
        else:
            yield found
    suspended = len(reader.list_suspended())
    if suspended:
        project.say(f"left out: {suspended} suspended, see agentserver journal suspended list", err=True)


def recorded_conversation(reader: EngineReader, conversation: str) -> RecordedConversation:
    """Read the steps of a conversation. Raises UnreadableError also for one deleted since it was listed."""
    from agentserver.core.encoding.history import UnrecordedError
    from agentserver.core.encoding.snapshot import UnreadableError

    try:
        return reader.recorded_conversation(conversation)
    except UnrecordedError:
        raise
    except LookupError:
        raise UnreadableError(f"conversation {conversation} has been deleted") from None


def find_conversation(reader: EngineReader, prefix: str) -> str:
    """Find the only conversation whose id begins with a prefix. Ends the command otherwise."""
    return only_match(reader.find(prefix), f"conversations begin with {prefix!r}")


def only_match(found: Sequence[T], description: str) -> T:
    """Return the only match, or end the command with the number of matches; ``description`` describes them."""
    if len(found) != 1:
        project.refuse(f"{len(found) or 'no'} {description}")
    return found[0]


def find_match(
    found: Iterable[T],
    prefix: str,
    description: str,
    *,
    decides: bool = False,
    id_of: Callable[[T], str] = attrgetter("id"),
) -> T:
    """Return the only item whose id begins with a prefix, or end the command with the number of these.

    Args:
        found: items.
        prefix: beginning of the id.
        description: describes the matches, as in "messages wait under".
        decides: whether the user decides about the item: a prefix below ``MIN_ID`` is then refused, because the
            intended item may be gone, and this another one.
        id_of: returns the id of an item.
    """
    one = only_match([each for each in found if id_of(each).startswith(prefix)], f"{description} {prefix!r}")
    if decides and len(prefix) < MIN_ID:
        project.refuse(f"{prefix!r} is too short: give at least {MIN_ID} characters")
    return one


def format_time(at: float | None) -> str:
    """Format a time for people, in UTC."""
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def list_options(function: Verb) -> Verb:
    """Add the options that all listing verbs share. The verb takes a printer as ``lists``.

    A group lists only if none of its verbs is invoked.
    """

    @wraps(function)
    def verb(*args: Any, as_json: bool, limit: int, **options: Any) -> object:
        if click.get_current_context().invoked_subcommand is not None:
            return None
        return function(*args, lists=ListPrinter(as_json, limit), **options)

    limit = click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="Largest number to list.",
    )
    form = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
    return limit(form(verb))


class ListPrinter(NamedTuple):
    """Printer of all lists: a line per item for people, a JSON object per line for programs.

    On a terminal, lines are cut to its width. A note on standard error reports an empty or shortened list.

    Args:
        as_json: whether to print JSON.
        limit: largest number of items to print.
    """

    as_json: bool
    limit: int

    def print(
        self,
        items: Iterable[T],
        line: Callable[[T], str],
        fields: Callable[[T], Mapping[str, object]],
        nothing: str,
    ) -> None:
        """Print a list; ``nothing`` says that it is empty."""
        from agentserver.characters.printing import escape_unseen
        from agentserver.trace.terminal import columns_of

        width, count = columns_of(sys.stdout), 0
        for item in items:
            if count == self.limit:
                project.say(f"only the first {count} are listed; --limit lists more", err=True)
                return
            count += 1
            text = json.dumps(fields(item)) if self.as_json else escape_unseen(line(item))
            click.echo(text if self.as_json or not width or len(text) <= width else f"{text[: width - 1]}…")
        if not count:
            project.say(nothing, err=True)
