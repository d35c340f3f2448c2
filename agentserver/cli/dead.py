"""``agentserver dead``: the dead letters, which their listeners could not handle."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from agentserver.cli import listing, project, reading
from agentserver.cli.project import Verbs
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agentserver.core.encoding.history import DeadLetter
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, FinishedInvocation
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import EngineError, EngineReader


DISCARDED = 200
"""Discarded letters that are listed."""


def _find_letter(reader: EngineReader, prefix: str) -> DeadLetter:
    return reading.find_only_match(reader.dead(prefix=prefix), f"dead letters begin with {prefix!r}")


COLUMNS = (listing.ID, listing.make_time_column("at"), listing.MESSAGE, "reason")


def _describe(delivery: Delivery, at: float, reason: str, redact: Callable[[str], str]) -> dict[str, object]:
    """Describe a delivery in a list, without secrets."""
    names = ("id", "conversation", "sender", "to")
    texts = {name: getattr(delivery, name) for name in names} | {
        "root": local(delivery.root),
        "reason": reason,
    }
    return {**{name: redact(text) for name, text in texts.items()}, "at": at, "attempt": delivery.attempt}


@click.group(
    "dead",
    cls=Verbs,
    short_help="List, show, requeue, discard or add dead letters.",
    invoke_without_command=True,
)
@reading.add_redaction_option
@listing.add_list_options
@click.option(
    "--discarded",
    is_flag=True,
    help="List the latest 200 discarded letters, each with the operator who discarded it.",
)
def command(storage: reading.Storage, *, discarded: bool, lists: listing.ListPrinter) -> None:
    """List the dead letters, oldest first: deliveries whose listener crashed, was too late, or no longer exists."""
    with storage.open_redacted() as (reader, secrets):
        letters = reader.list_discarded(DISCARDED) if discarded else reader.dead()
        rows = (
            _describe(one.delivery, one.at, one.reason, secrets.redact)
            | ({"discarded_by": one.discarded_by} if discarded else {})
            for one in letters
        )
        none = "no dead letter was discarded" if discarded else "there are no dead letters"
        lists.print(rows, (*COLUMNS, "discarded_by") if discarded else COLUMNS, none)


@command.command("show")
@click.argument("delivery")
@reading.add_redaction_option
@listing.add_record_options
def show(storage: reading.Storage, delivery: str, *, shows: listing.RecordPrinter) -> None:
    """Show one dead letter: its reason and its message."""
    with storage.open_redacted() as (reader, secrets):
        letter = _find_letter(reader, delivery)
    one, redact = letter.delivery, secrets.redact
    more = {"hop": one.hop, "principal": letter.principal, "open": letter.open}
    message = [redact(line) for line in _list_field_lines(one.message)]
    row = {**_describe(one, letter.at, letter.reason, redact), **more, "message": message}
    names = (
        "id",
        listing.make_time_column("at"),
        listing.MESSAGE,
        "hop",
        "conversation",
        "principal",
        "open",
        "reason",
    )
    shows.print(row, names, message)


def _list_field_lines(message: bytes) -> list[str]:
    """List the fields of a message, a line each; the message itself if it is no envelope."""
    from agentserver.trace.comparison import list_fields

    fields = list_fields(message)
    if fields is None:
        return message.decode("utf-8", "backslashreplace").split("\n")
    return [f"{'  ' * (each.depth + 1)}{each.name}: {each.value or ''}".rstrip() for each in fields]


@command.command("discard")
@click.argument("delivery")
@reading.add_journal_option
def discard(storage: reading.Storage, delivery: str) -> None:
    """Remove one from the list. Its records stay, with your name. The server must not be running."""
    from agentserver.engines.journal import retention
    from agentserver.engines.journal.reader import Reader

    with storage.open_to_change() as connection:
        letter = _find_letter(Reader(connection), delivery)
        retention.discard_letter(connection, letter.delivery.id, project.name_user(), time.time())
    click.echo(f"{letter.delivery.id} is discarded")


class _DecisionBooks(NamedTuple):
    """Journal with the rules that decide its conversations.

    ``commit`` stores outcomes of one conversation, and returns the error if it cannot. With ``quietly`` their events
    count as received.
    """

    rules: Rules
    reader: EngineReader
    commit: Callable[[Sequence[Outcome], bool], EngineError | None]

    def commit_all(self, outcomes: Sequence[Outcome], *, quietly: bool = False) -> None:
        """Commit outcomes of one conversation, or report why not."""
        trouble = self.commit(outcomes, quietly)
        if trouble is not None:
            project.refuse(str(trouble))


@contextmanager
def open_books(storage: reading.Storage) -> Iterator[_DecisionBooks]:
    """Open the journal to commit a decision."""
    from agentserver.engines.journal.reader import Reader
    from agentserver.engines.journal.rows import Acknowledgement
    from agentserver.engines.sqlite.writer import Writer

    rules = project.build_server(project.load(storage.organism)).rules
    if storage.shared is not None:
        from agentserver.engines.postgres.operations import commit_decision  # needs an extra

        with storage.open(rules.guards) as reader:
            yield _DecisionBooks(rules, reader, partial(commit_decision, storage.shared, rules.guards))
        return
    with storage.open_file_to_change() as connection:
        writer = Writer(connection, storage.path, rules.guards)

        def commit(outcomes: Sequence[Outcome], quietly: bool) -> EngineError | None:  # noqa: FBT001 - a callback
            acknowledged = [Acknowledgement(outcomes[0].conversation.id)] if quietly else []
            return next(filter(None, writer.commit(outcomes, acknowledged)), None)

        yield _DecisionBooks(rules, Reader(connection, rules.guards), commit)


def _commit(books: _DecisionBooks, decide: Callable[[], Outcome]) -> None:
    """Decide and commit, or report why not."""
    try:
        outcome = decide()
    except LookupError as error:
        project.refuse(*map(str, error.args))
    books.commit_all([outcome])


@command.command("requeue")
@click.argument("delivery")
@reading.add_journal_option
def requeue_letter(storage: reading.Storage, delivery: str) -> None:
    """Requeue one; the next run handles it.

    The server must not be running, unless servers share a database.

    If its thread is open, the delivery is queued there and its results are delivered as usual. Otherwise it
    becomes a new request of the same principal in a new conversation, and the answer waits for the principal. A
    message that the principal itself sent is admitted again. A listener's message is not an order of the
    principal: where provenance is enforced, nothing derived from it reaches a sink.
    """
    from agentserver.core.decide.requeue import lives

    with open_books(storage) as books:
        letter = _find_letter(books.reader, delivery)
        one, conversation = letter.delivery, books.reader.load(letter.delivery.conversation)
        outcome = "requeued"
        if conversation is not None and lives(conversation, one):
            _requeue(books, conversation, one)
        else:
            new = _redrive(books, letter)
            over = "thread is closed" if letter.open else "conversation is finished"
            outcome = f"a new request of {letter.principal}, in conversation {new}, since its {over}"
    click.echo(f"{one.id} is {outcome}")


def _requeue(books: _DecisionBooks, conversation: Conversation, delivery: Delivery) -> None:
    from agentserver.assembly import SystemClock
    from agentserver.core.decide.requeue import requeue
    from agentserver.core.messages import RequeuedLetter

    moment = SystemClock().moment()
    requeued = RequeuedLetter(delivery, project.name_user())
    _commit(books, lambda: requeue(conversation, requeued, books.rules, moment))


def _redrive(books: _DecisionBooks, letter: DeadLetter) -> str:
    """Turn a dead letter into a new request. Returns the id of its new conversation."""
    from agentserver.assembly import SystemClock
    from agentserver.core.decide.requeue import redrive
    from agentserver.core.messages import RedrivenLetter
    from agentserver.core.state.conversation import Conversation

    clock = SystemClock()
    origin = books.reader.recorded_conversation(letter.delivery.conversation).beginning
    opened = Conversation.begin(origin.opener, clock.moment())
    redriven = RedrivenLetter(letter.delivery, clock.moment().id(0), project.name_user())
    moment = clock.moment()
    _commit(books, lambda: redrive(opened, redriven, books.rules, moment))
    return opened.id


def _iter_next_deliveries(reader: EngineReader) -> Iterator[tuple[Conversation, Delivery]]:
    """Yield the deliveries that the next run handles first: one of each thread."""
    for conversation in filter(None, reading.read_each(reader, reader.load)):
        threads = conversation.tree.nodes.values()
        yield from ((conversation, thread.inbox[0]) for thread in threads if thread.inbox)


@command.command("next", short_help="List what the next run handles first.")
@reading.add_journal_option
@listing.add_list_options
def list_next(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the queued deliveries that the next run handles first, one of each thread.

    If handlers crash the whole process again and again, one of these is the cause. The server finds it within a
    few starts; give it up at once with ``dead add``. The time shown is the last activity of its conversation.
    """
    loaded = project.load(storage.organism)
    rules = project.build_server(loaded).rules
    with storage.open(rules.guards) as reader:
        rows = (
            _describe(delivery, conversation.touched, "", loaded.secrets.redact)
            for conversation, delivery in _iter_next_deliveries(reader)
        )
        lists.print(rows, COLUMNS[:-1], "no delivery is queued")


def _fail_delivery(delivery: Delivery, rules: Rules, reason: str) -> FinishedInvocation:
    """Describe a delivery that an operator gives up: failed, with no attempts left."""
    from agentserver.contract import Code
    from agentserver.core.messages import FinishedInvocation, HandlerFailure
    from agentserver.core.records.details import Ground

    listener = rules.blueprint.listeners.get(delivery.to)
    spent = delivery.attempt if listener is None else max(delivery.attempt, listener.retries)
    failed = HandlerFailure(Code.INTERNAL, Ground.GIVEN_UP.of(reason))
    return FinishedInvocation(delivery._replace(attempt=spent), None, failed)


@command.command("add", short_help="Give up a delivery that the next run would handle.")
@click.argument("delivery")
@click.option("--reason", default="no reason given", show_default=True, help="Reason to record.")
@reading.add_journal_option
def add(storage: reading.Storage, delivery: str, reason: str) -> None:
    """Give up a delivery that the next run would handle.

    The server must not be running, unless servers share a database. Its caller gets a SystemError, as from a
    listener that crashed and has no attempts left. ``dead next`` lists the candidates.
    """
    from agentserver.assembly import SystemClock
    from agentserver.core.decide import decisions

    with open_books(storage) as books:
        description = "deliveries that the next run handles first begin with"
        candidates = _iter_next_deliveries(books.reader)
        conversation, one = reading.find_match(
            candidates, delivery, description, id_of=lambda pair: pair[1].id
        )
        moment = SystemClock().moment()
        finished = _fail_delivery(one, books.rules, reason)
        _commit(books, lambda: decisions.conclude(conversation, finished, books.rules, moment))
    click.echo(f"{one.id} is given up; its caller gets an error")
