"""``agentserver approvals``, ``approve`` and ``deny``: what waits for a person's permission in a journal.

Owns the listing and what is said about an answer. Whether an answer still counts when it is read, the server decides.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.journal import journal_option, located, refusing, when
from agentserver.cli.shown import journal_and_secrets, shown_option

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.config import Secrets
    from agentserver.core.approvals import Answer, Approval, Decided

SHORT = 6
"""Characters of an id by which it is answered, at least: an empty or a stray one must not mean what is left."""

TAKEN = "a running server takes it within a second or so, a stopped one when it starts"


@click.group("approvals", short_help="List or show what waits for a permission.", invoke_without_command=True)
@shown_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def command(ctx: click.Context, organism: Path | None, journal: Path | None, *, as_json: bool) -> None:
    """List the messages of the journal that wait for a person's permission, the oldest first.

    Answer with agentserver approve and agentserver deny. All of it works while a server runs and while none does.
    """
    if ctx.invoked_subcommand is not None:
        return
    path, secrets = journal_and_secrets(ctx, organism, journal)
    found, answers = _waiting(ctx, path)
    for one in found:
        shown, answer = _without(one, secrets), answers.get(one.id)
        click.echo(json.dumps(_fields(shown, answer)) if as_json else _line(shown, answer))


@command.command("show")
@click.argument("approval")
@shown_option
@click.pass_context
def show(ctx: click.Context, approval: str, organism: Path | None, journal: Path | None) -> None:
    """Show APPROVAL, the id or its beginning, in full: what guards ask, with the lineage, and the message."""
    from agentserver.gateways import explained
    from agentserver.gateways.console_view import ASKS, MARGIN
    from agentserver.gateways.terminal import visible_lines

    outer = ctx.parent.params if ctx.parent is not None else {}
    path, secrets = journal_and_secrets(
        ctx, organism or outer.get("organism"), journal or outer.get("journal")
    )
    found, answers = _waiting(ctx, path)
    one = _without(_chosen(ctx, found, approval), secrets)
    delivery = one.delivery
    texts = [
        ("", f"approval {one.id}, asked {when(one.at)}{_answered(answers.get(one.id))}"),
        ("", f"{_route(one)}, hop {delivery.hop}, in conversation {delivery.conversation}"),
        *((ASKS, "\n".join(explained.full(question.text))) for question in one.questions),
        (MARGIN, delivery.message.decode("utf-8", "backslashreplace")),
        ("", f"sha-256 {one.digest}"),
    ]
    for margin, text in texts:
        for row in visible_lines(text, whole=True):
            click.echo(f"{margin}{row}")


@click.command("approve", short_help="Permit a message that waits.")
@click.argument("approval")
@click.option(
    "--always", is_flag=True, help="For the rest of its conversation, whatever is the same to the guard."
)
@journal_option
@click.pass_context
def approve(
    ctx: click.Context, approval: str, organism: Path | None, journal: Path | None, *, always: bool
) -> None:
    """Permit the message of APPROVAL, the id or its beginning: this one message, or --always.

    The answer is for the message as it is now, and is spent once.
    """
    from agentserver.core.approvals import Answer

    _answer(ctx, located(ctx, organism, journal), approval, Answer.ALWAYS if always else Answer.ONCE)


@click.command("deny", short_help="Refuse a message that waits.")
@click.argument("approval")
@journal_option
@click.pass_context
def deny(ctx: click.Context, approval: str, organism: Path | None, journal: Path | None) -> None:
    """Refuse the message of APPROVAL, the id or its beginning; its sender learns so. Takes back an approve."""
    from agentserver.core.approvals import Answer

    _answer(ctx, located(ctx, organism, journal), approval, Answer.DENY)


def _waiting(ctx: click.Context, path: Path) -> tuple[list[Approval], dict[str, Decided]]:
    """What waits, and the answers that no server has taken yet, by approval."""
    from agentserver.engines import journal_answers
    from agentserver.engines.journal_file import open_reading
    from agentserver.engines.journal_reader import Reader

    with refusing(ctx), closing(open_reading(path)) as connection:
        found = journal_answers.waiting(Reader(connection))
        answers = journal_answers.found(connection) if found else []
    return found, {decided.approval: decided for decided, _ in answers}


def _answer(ctx: click.Context, path: Path, prefix: str, answer: Answer) -> None:
    from agentserver.core.approvals import Decided
    from agentserver.engines import journal_answers

    found, answers = _waiting(ctx, path)
    one = _chosen(ctx, found, prefix)
    if len(prefix) < SHORT:  # what was meant may be gone, and this another one
        project.refuse(ctx, f"{prefix!r} is too short to be sure: name it by {SHORT} characters or more")
    with refusing(ctx):
        left = journal_answers.leave(path, Decided(one.id, one.digest, answer, project.user()), time.time())
    if not left:
        project.refuse(ctx, f"{_route(one)}{_answered(answers.get(one.id)) or ' is answered already'}")
    click.echo(f"{_route(one)}: {answer}; {TAKEN}")


def _chosen(ctx: click.Context, found: list[Approval], prefix: str) -> Approval:
    matching = [one for one in found if one.id.startswith(prefix)]
    if len(matching) != 1:
        project.refuse(ctx, f"{len(matching) or 'no'} messages wait for a permission under {prefix!r}")
    return matching[0]


def _without(one: Approval, secrets: Secrets) -> Approval:
    """A message that waits, as it may be shown."""
    message = secrets.redact(one.delivery.message.decode("utf-8", "backslashreplace")).encode()
    questions = tuple(each._replace(text=secrets.redact(each.text)) for each in one.questions)
    return one._replace(delivery=one.delivery._replace(message=message), questions=questions)


def _route(one: Approval) -> str:
    from agentserver.characters.printing import visible

    delivery = one.delivery
    return visible(f"{delivery.sender} -> {delivery.to} {delivery.root.rpartition('}')[2]}")


def _answered(decided: Decided | None) -> str:
    from agentserver.characters.printing import visible

    return (
        ""
        if decided is None
        else f", answered {decided.answer} by {visible(decided.by)}, which no server has read"
    )


def _line(one: Approval, decided: Decided | None) -> str:
    from agentserver.characters.printing import visible

    question = visible(one.questions[0].text.partition("\n")[0])[:200]
    return f"{one.id}  {when(one.at)}  {_route(one)}  {question}{_answered(decided)}"


def _fields(one: Approval, decided: Decided | None) -> dict[str, object]:
    delivery = one.delivery
    return {
        "id": one.id,
        "at": one.at,
        "conversation": delivery.conversation,
        "sender": delivery.sender,
        "to": delivery.to,
        "root": delivery.root.rpartition("}")[2],
        "questions": [question._asdict() for question in one.questions],
        "message": delivery.message.decode("utf-8", "backslashreplace"),
        "digest": one.digest,
        "answer": None if decided is None else {"said": decided.answer, "by": decided.by},
    }
