"""``agentserver effects``: external effects of a journal whose outcome is unknown.

The server decides whether a verdict still counts when it reads it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from agentserver.cli import project, reading
from agentserver.cli.project import Verbs

if TYPE_CHECKING:
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.messages import EffectVerdict
    from agentserver.core.state.ledger import LedgerEffect

MIN_ID = 6
"""Shortest beginning of an id that may be settled, so that a typing mistake matches nothing."""

TAKEN = "a running server reads it within about a second, a stopped one when it starts"


@click.group(
    "effects",
    cls=Verbs,
    short_help="List and settle external effects with an unknown outcome.",
    invoke_without_command=True,
)
@reading.redaction_option
@reading.list_options
def command(given: reading.JournalArguments, *, lists: reading.ListPrinter) -> None:
    """List the external effects of the journal without an answer, oldest first.

    The outcome of one that is unknown waits for agentserver effects settle. One that is claimed is being done, or was
    when the server stopped.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    kept, secrets = reading.find_source_and_secrets(given)
    found = [_redact(one, secrets) for one in _list_effects(kept)]
    lists.print(found, _line, _fields, "no external effect has an unknown outcome")


@command.command("settle")
@click.argument("effect")
@click.option("--done", "answer", metavar="ANSWER", help="It was done: its answer, as JSON or text.")
@click.option("--not-done", is_flag=True, help="It was not done: the next attempt does it.")
@reading.journal_option
def settle(given: reading.JournalArguments, effect: str, *, answer: str | None, not_done: bool) -> None:
    """Decide what became of EFFECT, an id or its beginning. The verdict goes on record with your user name.

    Then queue the message again with agentserver dead requeue: its handler gets the answer, or does the work. The
    verdict on an effect of an ended conversation only takes it off the list.
    """
    from agentserver.core.messages import EffectVerdict

    if (answer is None) is not not_done:
        project.refuse("give either --done ANSWER or --not-done")
    outer = click.get_current_context().parent
    named = outer.params if outer is not None else {}
    given = reading.JournalArguments(
        given.organism or named.get("organism"), given.journal or named.get("journal")
    )
    kept = reading.find_source(given)
    if len(effect) < MIN_ID:
        project.refuse(f"{effect!r} is too short: give at least {MIN_ID} characters")
    one, ended = _find(kept, effect)
    verdict = EffectVerdict(one.id, None if answer is None else _read_answer(answer), project.user())
    if not _leave(kept, verdict, ended=ended):
        project.refuse(f"{one.key} is settled already: a server has yet to read it")
    fate = "its conversation has ended, so that no handler asks for it" if ended else TAKEN
    click.echo(f"{one.key}: {'not done' if verdict.answer is None else 'done'}; {fate}")


def _find(kept: reading.Source, prefix: str) -> tuple[LedgerEffect, bool]:
    """Find an effect that can be settled, and whether its conversation has ended."""
    matching = [one for one in _list_effects(kept) if one.id.startswith(prefix)]
    one = reading.only_match(matching, f"external effects have no answer under {prefix!r}")
    with reading.open_reader(kept) as reader:
        ended = all(key != one.id.partition(".")[2] for key in _open_conversations(reader))
    return one, ended


def _open_conversations(reader: object) -> list[str]:
    return [one.id for one in reader.conversations() if one.closed is None]  # type: ignore[attr-defined]


def _read_answer(text: str) -> str:
    """Return the answer as JSON; a text that is no JSON is a string."""
    from agentserver import effects
    from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

    value = parse_json(text, JsonLimits(bytes=effects.LONGEST_ANSWER))
    with project.refuse_on(ValueError):
        return effects.dump_answer(text if isinstance(value, RefusedJson) else value)


def _list_effects(kept: reading.Source) -> list[LedgerEffect]:
    with reading.open_reader(kept) as reader:
        return list(reader.list_effects())


def _leave(kept: reading.Source, verdict: EffectVerdict, *, ended: bool) -> bool:
    from agentserver.engines.journal import records
    from agentserver.engines.sqlite import maintenance

    with reading.report_storage_errors():
        if kept.shared is not None:
            from agentserver.engines.postgres.operations import changing  # needs an extra

            with changing(kept.shared) as connection:
                return records.put_verdict(connection, verdict, time.time(), ended=ended)
        if kept.path is None:
            project.refuse("this engine accepts no verdicts from the command line")
        return maintenance.leave_verdict(kept.path, verdict, time.time(), ended=ended)


def _redact(one: LedgerEffect, secrets: Secrets) -> LedgerEffect:
    return one._replace(key=secrets.redact(one.key))


def _line(one: LedgerEffect) -> str:
    return f"{one.id}  {reading.format_time(one.at)}  {one.state:7}  {one.listener}  {one.key}  token {one.token}"


def _fields(one: LedgerEffect) -> dict[str, object]:
    return {
        "id": one.id,
        "at": one.at,
        "state": str(one.state),
        "conversation": one.id.partition(".")[2],
        "listener": one.listener,
        "key": one.key,
        "token": one.token,
        "attempt": one.attempt,
        "delivery": one.delivery,
    }
