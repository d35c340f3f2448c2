"""``agentserver effects``: external effects of a journal whose outcome is unknown.

The server decides whether a verdict still counts when it reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.cli import listing, project, reading
from agentserver.cli.project import Verbs
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

if TYPE_CHECKING:
    from agentserver.core.state.ledger import LedgerEffect


@click.group(
    "effects",
    cls=Verbs,
    short_help="List and settle external effects with an unknown outcome.",
    invoke_without_command=True,
)
@reading.add_redaction_option
@listing.add_list_options
def command(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the external effects of the journal without an answer, oldest first.

    An unknown one waits for agentserver effects settle. A claimed one is in progress, or was when the server stopped.
    """
    with storage.open_redacted() as (reader, secrets):
        rows = [{**_describe(one), "key": secrets.redact(one.key)} for one in reader.list_effects()]
    lists.print(rows, COLUMNS, "no external effect has an unknown outcome")


COLUMNS = (listing.ID, listing.make_time_column("at"), "state", "listener", "key", "token")


@command.command("settle")
@click.argument("effect")
@click.option("--done", "answer", metavar="ANSWER", help="It was done: its answer, as JSON or text.")
@click.option("--not-done", is_flag=True, help="It was not done: the next attempt does it.")
@reading.add_journal_option
def settle(storage: reading.Storage, effect: str, *, answer: str | None, not_done: bool) -> None:
    """Record the outcome of EFFECT, an id or its beginning, under your user name.

    Then requeue the message with agentserver dead requeue: its handler gets the answer, or does the work. Settling an
    effect of an ended conversation only removes it from the list.
    """
    from agentserver.core.messages import EffectVerdict
    from agentserver.engines.journal import records

    if (answer is None) is not not_done:
        project.refuse("give either --done ANSWER or --not-done")
    one, ended = _find(storage, effect)
    written = None if answer is None else _read_answer(answer)
    if written is not None:
        _check_type(storage, one, written)
    verdict = EffectVerdict(one.id, written, project.name_user())
    if not storage.use_connection(
        lambda connection, at: records.put_verdict(connection, verdict, at, ended=ended)
    ):
        project.refuse(f"{one.key} is settled already: a server has yet to read it")
    fate = "its conversation has ended, so that no handler asks for it" if ended else reading.PICKUP
    click.echo(f"{one.key}: {'not done' if verdict.answer is None else 'done'}; {fate}")


def _find(storage: reading.Storage, prefix: str) -> tuple[LedgerEffect, bool]:
    """Find an effect that can be settled, and whether its conversation has ended."""
    description = "external effects have no answer under"
    with storage.open() as reader:
        one = reading.find_match(reader.list_effects(), prefix, description, decides=True)
        key = one.id.partition(".")[2]
        ended = all(each.id != key for each in reader.conversations() if each.closed is None)
    return one, ended


def _read_answer(text: str) -> str:
    """Return the answer as JSON; a text that is no JSON is a string."""
    from agentserver import effects

    value = parse_json(text, JsonLimits(bytes=effects.LONGEST_ANSWER))
    with project.refuse_on(ValueError):
        return effects.dump_answer(text if isinstance(value, RefusedJson) else value)


def _check_type(storage: reading.Storage, one: LedgerEffect, written: str) -> None:
    """Refuse an answer that is of another type than the function of ``once`` returns, if the organism is here."""
    from agentserver.flow.handler import FlowHandler
    from agentserver.flow.results import find_result_kind

    if project.find_organism(storage.organism) is None:
        return
    bound = {each.listener.name: each.handler for each in project.load(storage.organism).listeners}
    handler = bound.get(one.listener)
    kind = find_result_kind(handler.function, one.key) if isinstance(handler, FlowHandler) else None
    reason = "" if kind is None else kind.explain_mismatch(written)
    if kind is not None and reason:
        hint = (
            "a text is given in quotes of JSON if it looks like something else"
            if kind.described == "str"
            else ""
        )
        project.refuse(
            f"{one.key} returns {kind.described}, which the answer is not: {reason}", *filter(None, (hint,))
        )


def _describe(one: LedgerEffect) -> listing.Row:
    names = ("id", "at", "state", "listener", "key", "token", "attempt", "delivery")
    return {name: getattr(one, name) for name in names} | {"conversation": one.id.partition(".")[2]}
