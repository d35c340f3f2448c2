"""``agentserver effects``: external effects of a journal whose outcome is unknown.

The server decides whether a verdict still counts when it reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.cli import project, reading
from agentserver.cli.project import Verbs
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

if TYPE_CHECKING:
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.state.ledger import LedgerEffect


@click.group(
    "effects",
    cls=Verbs,
    short_help="List and settle external effects with an unknown outcome.",
    invoke_without_command=True,
)
@reading.redaction_option
@reading.list_options
def command(arguments: reading.JournalArguments, *, lists: reading.ListPrinter) -> None:
    """List the external effects of the journal without an answer, oldest first.

    An unknown one waits for agentserver effects settle. A claimed one is in progress, or was when the server stopped.
    """
    source, secrets = reading.find_source_and_secrets(arguments)
    found = [_redact(one, secrets) for one in _list_effects(source)]
    lists.print(found, _line, _fields, "no external effect has an unknown outcome")


@command.command("settle")
@click.argument("effect")
@click.option("--done", "answer", metavar="ANSWER", help="It was done: its answer, as JSON or text.")
@click.option("--not-done", is_flag=True, help="It was not done: the next attempt does it.")
@reading.journal_option
def settle(arguments: reading.JournalArguments, effect: str, *, answer: str | None, not_done: bool) -> None:
    """Record the outcome of EFFECT, an id or its beginning, under your user name.

    Then requeue the message with agentserver dead requeue: its handler gets the answer, or does the work. Settling an
    effect of an ended conversation only removes it from the list.
    """
    from agentserver.core.messages import EffectVerdict
    from agentserver.engines.journal import records

    if (answer is None) is not not_done:
        project.refuse("give either --done ANSWER or --not-done")
    source = reading.find_source(arguments)
    one, ended = _find(source, effect)
    written = None if answer is None else _read_answer(answer)
    if written is not None:
        _check_type(arguments, one, written)
    verdict = EffectVerdict(one.id, written, project.user())
    if not reading.leave(
        source, lambda connection, at: records.put_verdict(connection, verdict, at, ended=ended)
    ):
        project.refuse(f"{one.key} is settled already: a server has yet to read it")
    fate = "its conversation has ended, so that no handler asks for it" if ended else reading.PICKUP
    click.echo(f"{one.key}: {'not done' if verdict.answer is None else 'done'}; {fate}")


def _find(source: reading.Source, prefix: str) -> tuple[LedgerEffect, bool]:
    """Find an effect that can be settled, and whether its conversation has ended."""
    description = "external effects have no answer under"
    one = reading.find_match(_list_effects(source), prefix, description, decides=True)
    with reading.open_reader(source) as reader:
        key = one.id.partition(".")[2]
        ended = all(each.id != key for each in reader.conversations() if each.closed is None)
    return one, ended


def _read_answer(text: str) -> str:
    """Return the answer as JSON; a text that is no JSON is a string."""
    from agentserver import effects

    value = parse_json(text, JsonLimits(bytes=effects.LONGEST_ANSWER))
    with project.refuse_on(ValueError):
        return effects.dump_answer(text if isinstance(value, RefusedJson) else value)


def _check_type(arguments: reading.JournalArguments, one: LedgerEffect, written: str) -> None:
    """Refuse an answer that is of another type than the function of ``once`` returns, if the organism is here."""
    from agentserver.flow.handler import FlowHandler
    from agentserver.flow.results import find_result_kind

    if project.find_organism(arguments.organism) is None:
        return
    bound = {each.listener.name: each.handler for each in project.load(arguments.organism).listeners}
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


def _list_effects(source: reading.Source) -> list[LedgerEffect]:
    with reading.open_reader(source) as reader:
        return list(reader.list_effects())


def _redact(one: LedgerEffect, secrets: Secrets) -> LedgerEffect:
    return one._replace(key=secrets.redact(one.key))


def _line(one: LedgerEffect) -> str:
    return f"{one.id}  {reading.format_time(one.at)}  {one.state:7}  {one.listener}  {one.key}  token {one.token}"


def _fields(one: LedgerEffect) -> dict[str, object]:
    names = ("id", "at", "state", "listener", "key", "token", "attempt", "delivery")
    return {name: getattr(one, name) for name in names} | {"conversation": one.id.partition(".")[2]}
