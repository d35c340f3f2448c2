"""``agentserver dead``: deliveries that their listeners could not deal with.

Owns the listing, who may be queued again and what may be given up. What a dead letter is, the engine says.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from agentserver.cli import project
from agentserver.cli.journal import changing, writing
from agentserver.cli.reading import (
    journal_option,
    legible,
    located,
    reading,
    shown_option,
    source,
    source_and_secrets,
    the_only,
    when,
)
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.encoding.recorded import DeadLetter
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Finished
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation
    from agentserver.ports import EngineError, EngineReader


@click.group("dead", cls=Verbs, short_help="List, show, queue again, discard or add dead letters.")
def command() -> None:
    """Deliveries that were given up: their listener crashed, was late, or is not there any more."""


def _chosen(ctx: click.Context, reader: EngineReader, prefix: str) -> DeadLetter:
    return the_only(ctx, reader.dead(prefix=prefix), f"dead letters begin with {prefix!r}")


def _line(delivery: Delivery, at: float, more: str, secrets: Secrets) -> str:
    """One delivery of a list."""
    from agentserver.characters.printing import escape_unseen
    from agentserver.payload.names import local

    place = f"{delivery.id}  {when(at)}  {delivery.sender} -> {delivery.to} {local(delivery.root)}"
    return escape_unseen(secrets.redact(f"{place}  {more}".rstrip()))


@command.command("list")
@shown_option
@click.pass_context
def listing(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """List the dead letters, oldest first."""
    kept, secrets = source_and_secrets(ctx, organism, journal)
    with reading(ctx, kept) as reader:
        none = True
        for letter in reader.dead():
            none = False
            click.echo(_line(letter.delivery, letter.at, secrets.redact(letter.reason)[:200], secrets))
    if none:
        project.say("there are no dead letters", err=True)


@command.command("show")
@click.argument("delivery")
@shown_option
@click.pass_context
def show(ctx: click.Context, delivery: str, organism: Path | None, journal: Path | None) -> None:
    """Show one dead letter: why it was given up, and its message."""
    from agentserver.trace.terminal import visible_lines

    kept, secrets = source_and_secrets(ctx, organism, journal)
    with reading(ctx, kept) as reader:
        letter = _chosen(ctx, reader, delivery)
    one = letter.delivery
    state = "open" if letter.open else "finished"
    for text in (
        f"delivery {one.id}, given up {when(letter.at)}",
        f"from {one.sender} to {one.to}, hop {one.hop}",
        f"in conversation {one.conversation} of {letter.principal}, which is {state}",
        letter.reason,
        one.message.decode("utf-8", "backslashreplace"),
    ):
        for row in visible_lines(secrets.redact(text)):
            click.echo(row)


@command.command("discard")
@click.argument("delivery")
@journal_option
@click.pass_context
def discard(ctx: click.Context, delivery: str, organism: Path | None, journal: Path | None) -> None:
    """Take one off the list. What is recorded of it stays. The server must not be running."""
    from agentserver.engines.journal.care import ageing
    from agentserver.engines.journal.reader import Reader

    with changing(ctx, organism, journal) as connection:
        letter = _chosen(ctx, Reader(connection), delivery)
        ageing.discard(connection, letter.delivery.id)
    click.echo(f"{letter.delivery.id} is discarded")


class _Books(NamedTuple):
    """A journal with the rules that its conversations decide by.

    ``commit`` keeps an outcome, and returns what stands in its way.
    """

    rules: Rules
    reader: EngineReader
    commit: Callable[[Outcome], EngineError | None]


@contextmanager
def _books(ctx: click.Context, organism: Path | None, journal: Path | None) -> Iterator[_Books]:
    """Open the journal, to be changed by a decision."""
    from agentserver.engines.journal.reader import Reader
    from agentserver.engines.sqlite.writer import Writer

    rules = project.server(ctx, project.load(ctx, organism)).rules
    kept = source(ctx, organism, journal)
    if kept.shared is not None:
        from agentserver.engines.postgres import deciding  # with an extra that most do without

        with reading(ctx, kept, rules.guards) as reader:
            yield _Books(rules, reader, partial(deciding.commit, kept.shared, rules.guards))
        return
    path = located(ctx, organism, journal)
    with writing(ctx, path) as connection:
        writer = Writer(connection, path, rules.guards)
        yield _Books(rules, Reader(connection, rules.guards), lambda outcome: writer.commit([outcome])[0])


def _commit(ctx: click.Context, books: _Books, decide: Callable[[], Outcome]) -> None:
    """Take a decision and keep it, or say why neither."""
    try:
        outcome = decide()
    except LookupError as error:
        project.refuse(ctx, *map(str, error.args))
    trouble = books.commit(outcome)
    if trouble is not None:
        project.refuse(ctx, str(trouble))


@command.command("requeue")
@click.argument("delivery")
@journal_option
@click.pass_context
def again(ctx: click.Context, delivery: str, organism: Path | None, journal: Path | None) -> None:
    """Queue one again; the next run takes it up.

    The server must not be running, unless servers share a database.

    While its thread lives it is queued there, and what comes of it goes where it would have gone. Otherwise it becomes
    a request of the same principal in a conversation of its own, and what it is answered waits for the principal. A
    message that the principal sent itself is judged as when it came. The words of a listener are no orders of the
    principal's: where provenance is enforced, nothing that comes of them reaches a sink.
    """
    from agentserver.core.decide.requeue import lives

    with _books(ctx, organism, journal) as books:
        letter = _chosen(ctx, books.reader, delivery)
        one, conversation = letter.delivery, books.reader.load(letter.delivery.conversation)
        told = "queued again"
        if conversation is not None and lives(conversation, one):
            _requeue(ctx, books, conversation, one)
        else:
            new = _redrive(ctx, books, letter)
            over = "thread is closed" if letter.open else "conversation is finished"
            told = f"a new request of {letter.principal}, in conversation {new}, since its {over}"
    click.echo(f"{one.id} is {told}")


def _requeue(ctx: click.Context, books: _Books, conversation: Conversation, delivery: Delivery) -> None:
    from agentserver.assembly import SystemClock
    from agentserver.core.decide.requeue import requeue

    moment = SystemClock().moment()
    _commit(ctx, books, lambda: requeue(conversation, delivery, books.rules, moment))


def _redrive(ctx: click.Context, books: _Books, letter: DeadLetter) -> str:
    """Make a dead letter a request of its own; gives the conversation that it opens."""
    from agentserver.assembly import SystemClock
    from agentserver.core.decide.requeue import redrive
    from agentserver.core.messages import Redriven
    from agentserver.core.state.conversation import Conversation

    clock = SystemClock()
    origin = books.reader.recorded_conversation(letter.delivery.conversation).beginning
    opened = Conversation.opened(origin.opener, clock.moment())
    redriven = Redriven(letter.delivery, next(clock.moment().ids()), project.user())
    moment = clock.moment()
    _commit(ctx, books, lambda: redrive(opened, redriven, books.rules, moment))
    return opened.id


# What waits


def _next(reader: EngineReader) -> Iterator[tuple[Conversation, Delivery]]:
    """The deliveries that the next run hands to their listeners first: one of each thread."""
    for conversation in filter(None, legible(reader, reader.load)):
        threads = conversation.tree.nodes.values()
        yield from ((conversation, thread.inbox[0]) for thread in threads if thread.inbox)


@command.command("next", short_help="List what the next run begins with.")
@journal_option
@click.pass_context
def upcoming(ctx: click.Context, organism: Path | None, journal: Path | None) -> None:
    """List the queued deliveries that the next run hands to their listeners, one of each thread.

    When handlers take the whole process down again and again, it is one of these. The server finds it by itself, in a
    few starts; who cannot wait for that gives it up with ``dead add``. The time is that of the last thing
    that happened in its conversation.
    """
    loaded = project.load(ctx, organism)
    rules = project.server(ctx, loaded).rules
    with reading(ctx, source(ctx, organism, journal), rules.guards) as reader:
        for conversation, delivery in _next(reader):
            click.echo(_line(delivery, conversation.touched, "", loaded.secrets))


def _given_up(delivery: Delivery, rules: Rules, reason: str) -> Finished:
    """A delivery that an operator gives up, as one that failed and has no attempts left."""
    from agentserver.contract import Code
    from agentserver.core.messages import Failed, Finished
    from agentserver.core.records.details import Ground

    listener = rules.blueprint.listeners.get(delivery.to)
    spent = delivery.attempt if listener is None else max(delivery.attempt, listener.retries)
    failed = Failed(Code.INTERNAL, Ground.GIVEN_UP.of(reason))
    return Finished(delivery._replace(attempt=spent), None, failed)


@command.command("add", short_help="Give up a delivery that the next run begins with.")
@click.argument("delivery")
@click.option("--reason", default="no reason given", show_default=True, help="For the record.")
@journal_option
@click.pass_context
def add(ctx: click.Context, delivery: str, reason: str, organism: Path | None, journal: Path | None) -> None:
    """Give up a delivery that the next run would hand to its listener.

    The server must not be running, unless servers share a database.
    Its caller gets a SystemError, as for a listener that crashed and has no attempts left. ``dead next`` lists
    what may be given up.
    """
    from agentserver.assembly import SystemClock
    from agentserver.core.decide import decisions

    with _books(ctx, organism, journal) as books:
        found = [pair for pair in _next(books.reader) if pair[1].id.startswith(delivery)]
        if len(found) != 1:
            number = len(found) or "none"
            project.refuse(ctx, f"{number} of what the next run begins with begins with {delivery!r}")
        ((conversation, one),) = found
        moment = SystemClock().moment()
        finished = _given_up(one, books.rules, reason)
        _commit(ctx, books, lambda: decisions.conclude(conversation, finished, books.rules, moment))
    click.echo(f"{one.id} is given up; its caller is told")
