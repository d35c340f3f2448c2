"""Opens what reading verbs show: the journal, database or engine, and the secrets to redact from it."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from functools import cached_property, wraps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from agentserver.cli import project

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from agentserver.config.glimpse import OrganismPreview
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
"""Time at which a decision that was left in the journal takes effect."""

UNREDACTED = "agentserver.unredacted"
"""Key of the click context for the user's consent to see secrets."""


class EngineOpener(Protocol):
    """Function that opens an engine for reading."""

    def __call__(self, guards: Sequence[CoreGuard] = (), /) -> AbstractContextManager[EngineReader]:
        """Open a reader for as long as the context lasts. Raises EngineError.

        Args:
            guards: those whose memory is stored with the conversations.
        """


class Storage:
    """Journal, database or engine that a verb works on. It is found when it is first used, which may end the command.

    Args:
        organism: file of the organism, if named.
        journal: file of the journal, if named.
    """

    def __init__(self, organism: Path | None = None, journal: Path | None = None) -> None:
        self.organism, self.journal = organism, journal

    def __str__(self) -> str:
        if self.shared is not None:
            return f"the database (schema {self.shared.schema})"
        return "the engine" if self._engine is not None else str(self.path)

    @cached_property
    def _engine(self) -> EngineOpener | None:
        """Engine of the program that runs the command, unless a journal is named."""
        found: EngineOpener | None = project.find_shared_values().get(READERS)
        return found if self.journal is None else None

    @cached_property
    def shared(self) -> PostgresOptions | None:
        """Database that servers share; None for a file and for a program's own engine. Raises MissingExtraError."""
        file = project.find_organism(self.organism)
        if self.journal is not None or self._engine is not None or file is None:
            return None
        keys = project.read_glimpse(file).engine
        if keys is None:
            return None
        from agentserver.assembly import describe_postgres_options

        return describe_postgres_options(keys)

    @property
    def is_file(self) -> bool:
        """True for a journal's file."""
        return self._engine is None and self.shared is None

    @cached_property
    def path(self) -> Path:
        """File of the journal: the named one, or that of the organism, which need not load.

        Without an organism it is the default path of a new one. Without a file, also with an engine, the command ends.
        """
        from agentserver.config.keys.models import Journal

        if self.journal is not None:
            return self.journal
        if READERS in project.find_shared_values():
            project.refuse("this needs a journal file: name one with --journal")
        default = Path(Journal().path)
        file = project.find_organism(self.organism)
        if file is None and project.is_file(default):
            return default
        file = project.find_organism_or_raise(self.organism)
        seen = project.read_glimpse(file)
        if seen.engine is not None:
            project.refuse("the organism keeps its conversations in a database: this needs a journal file")
        if seen.unkept:
            project.refuse("the organism keeps no journal; name one with --journal")
        return find_journal(seen, file)

    @cached_property
    def secrets(self) -> Secrets:
        """Secrets of the organism that is named or found here, to redact from what a verb shows.

        The organism need not load, and none of its code runs. Without an organism, a note on standard error says that
        secrets are not redacted. Ends the command when the organism's files cannot be read, unless ``--unredacted`` was
        given.
        """
        from agentserver.config.yaml.secrets import Secrets

        file = project.find_organism(self.organism)
        if file is None:
            str(self)  # without anything to read there is nothing to redact
            project.say(
                "no organism is known here, so its secrets are not redacted; name it with --organism",
                err=True,
            )
            return Secrets()
        seen = project.read_glimpse(file)
        if seen.unread and not project.find_shared_values().get(UNREDACTED):
            note = "so not all of its secrets are known, and nothing is shown; --unredacted shows it anyway"
            project.refuse(*seen.unread.split("\n"), note)
        if seen.unread:
            project.say(*seen.unread.split("\n"), "not all of its secrets are known and redacted", err=True)
        return seen.secrets

    def open(self, guards: Sequence[CoreGuard] = ()) -> AbstractContextManager[EngineReader]:
        """Open a reader, also while a server writes.

        Args:
            guards: those whose memory is stored with the conversations.
        """
        if self._engine is not None:
            return self._engine(guards)
        if self.shared is not None:
            from agentserver.engines.postgres import operations as database  # needs an extra

            return database.reading(self.shared, guards)
        from agentserver.engines.sqlite.file import read_journal

        return read_journal(self.path, guards)

    @contextmanager
    def open_redacted(self) -> Iterator[tuple[EngineReader, Secrets]]:
        """Open a reader. Yields it with the secrets to redact from its texts."""
        secrets = self.secrets
        with self.open() as reader:
            yield reader, secrets

    @contextmanager
    def open_file_to_change(self) -> Iterator[sqlite3.Connection]:
        """Open the journal's file to change it; refused while a server uses it."""
        from agentserver.engines.sqlite.file import JournalOptions, open_writing
        from agentserver.engines.sqlite.lock import Lock

        if not self.path.is_file():
            hint = "agentserver run creates it, or name one with --journal"
            project.refuse(f"{self.path}: there is no journal yet; {hint}")
        with Lock(self.path), closing(open_writing(JournalOptions(self.path))) as connection:
            yield connection

    def open_to_change(self) -> AbstractContextManager[Any]:
        """Open a journal or a database to change idle conversations. A journal in use by a server is refused."""
        if self.shared is None:
            return self.open_file_to_change()
        from agentserver.engines.postgres import operations as database  # needs an extra

        return database.changing(self.shared)

    def use_connection(self, use: Callable[[Any, float], T]) -> T:
        """Store an operator's decision durably, or read notes, also while servers use the journal or the database.

        Args:
            use: uses a connection and the time, which is that of the database's clock where there is one, and returns
                what this function returns.

        Ends the command if the decision cannot be stored.
        """
        if self.shared is not None:
            from agentserver.engines.postgres.operations import changing, read_time  # needs an extra

            with changing(self.shared) as connection:
                return use(connection, read_time(connection))
        if self.is_file:
            from agentserver.engines.sqlite import maintenance

            return maintenance.leave(self.path, lambda connection: use(connection, time.time()))
        return project.refuse("this engine accepts no decisions from the command line")

    def read_clock(self) -> float:
        """Read the clock of the servers, in seconds since the epoch: a database's, or this machine's."""
        return time.time() if self.shared is None else self.use_connection(lambda _, at: at)


def add_journal_option(function: Verb) -> Verb:
    """Add the options that name a journal: its file, or the organism. The verb takes its ``Storage`` first.

    The options may also precede the verb, if its group has them.
    """

    @wraps(function)
    def verb(*, organism: Path | None, journal: Path | None, **options: Any) -> object:
        parent = click.get_current_context().parent
        outer = {} if parent is None else parent.params
        storage = Storage(organism or outer.get("organism"), journal or outer.get("journal"))
        return function(storage, **options)

    decorated = click.option(
        "--journal", type=project.FILE, help="Journal file; the organism's own by default."
    )
    return decorated(project.add_organism_option(verb))


def _show_unredacted(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - a callback's signature
    del param
    if value:
        ctx.meta[UNREDACTED] = True


def add_redaction_option(function: Verb) -> Verb:
    """Add the options that name a journal, and the one that shows it with secrets."""
    decorated = click.option(
        "--unredacted",
        is_flag=True,
        expose_value=False,
        callback=_show_unredacted,
        help="Show it even if the organism's files cannot be read, so that not all secrets are known and redacted.",
    )
    return add_journal_option(decorated(function))


def find_journal(seen: OrganismPreview, file: Path) -> Path:
    """Return the journal that an organism's file names. Ends the command if that cannot be read."""
    if seen.journal is None:
        reason = seen.astray or seen.unread or f"{file}: journal: it cannot be read"
        hint = "which journal the organism has is not known: name it with --journal"
        project.refuse(*reason.split("\n"), hint)
    return seen.journal


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


def read_recorded_conversation(reader: EngineReader, conversation: str) -> RecordedConversation:
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
    return find_only_match(reader.find(prefix), f"conversations begin with {prefix!r}")


def find_only_match(found: Sequence[T], description: str) -> T:
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
    one = find_only_match(
        [each for each in found if id_of(each).startswith(prefix)], f"{description} {prefix!r}"
    )
    if decides and len(prefix) < MIN_ID:
        project.refuse(f"{prefix!r} is too short: give at least {MIN_ID} characters")
    return one
