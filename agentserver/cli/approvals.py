"""``agentserver approvals``, ``approve`` and ``deny``: what waits for a person's approval in a journal.

Owns the listing and what is said about an answer. Whether an answer still counts when it is read, the server decides.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import click

from agentserver.cli import project
from agentserver.cli.reading import (
    Source,
    journal_option,
    legible,
    reading,
    refusing,
    shown_option,
    source,
    source_and_secrets,
    the_only,
    when,
)
from agentserver.cli.verbs import Verbs

if TYPE_CHECKING:
    from pathlib import Path

    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Question
    from agentserver.core.state.approvals import Answer, Approval, ApprovalAnswer
    from agentserver.findings import Origins

SHORT = 6
"""Characters of an id by which it is answered, at least: an empty or a stray one must not mean what is left."""

DIGEST = 12
"""Characters of a digest by which a message is approved, at least."""

TAKEN = "a running server takes it within a second or so, a stopped one when it starts"


@click.group(
    "approvals", cls=Verbs, short_help="List or show what waits for an approval.", invoke_without_command=True
)
@shown_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def command(ctx: click.Context, organism: Path | None, journal: Path | None, *, as_json: bool) -> None:
    """List the messages of the journal that wait for a person's approval, the oldest first.

    Answer with agentserver approve and agentserver deny. All of it works while a server runs and while none does.
    """
    if ctx.invoked_subcommand is not None:
        return
    kept, secrets = source_and_secrets(ctx, organism, journal)
    found, answers = _waiting(ctx, kept)
    if not found:
        project.say("nothing waits for an approval", err=True)
    for one in found:
        shown, answer = _without(one, secrets), answers.get(one.id)
        click.echo(json.dumps(_fields(shown, answer)) if as_json else _line(shown, answer))


@command.command("show")
@click.argument("approval")
@shown_option
@click.pass_context
def show(ctx: click.Context, approval: str, organism: Path | None, journal: Path | None) -> None:
    """Show APPROVAL, the id or its beginning, in full: what guards ask, with the lineage, and the message.

    The message stands in fields, where the organism is known, and as it is sent; texts are in quotes, a line a
    piece. The last line is the digest by which it is approved.
    """
    from agentserver.gateways import approval_view
    from agentserver.trace.terminal import paint

    outer = ctx.parent.params if ctx.parent is not None else {}
    organism, journal = organism or outer.get("organism"), journal or outer.get("journal")
    kept, secrets = source_and_secrets(ctx, organism, journal)
    found, answers = _waiting(ctx, kept)
    one, rules = _chosen(ctx, found, approval), _rules(organism)
    delivery = one.delivery
    click.echo(f"approval {one.id}, asked {when(one.at)}{_answered(answers.get(one.id))}")
    click.echo(f"{_route(one)}, hop {delivery.hop}, in conversation {delivery.conversation}")
    shown = [
        *approval_view.reasons(_without(one, secrets)),
        *(approval_view.said(one, rules.codecs, secrets.redact)[:-1] if rules else ()),
        *approval_view.traced(_origins(ctx, kept, one, rules), secrets.redact),
        *approval_view.said(one, None, secrets.redact),
    ]
    for line in shown:
        click.echo(paint(line, colour=False, whole=True))


@click.command("approve", short_help="Approve a message that waits.")
@click.argument("digest")
@click.option(
    "--always", is_flag=True, help="For the rest of its conversation, all that is the same to the guard."
)
@journal_option
@click.pass_context
def approve(
    ctx: click.Context, digest: str, organism: Path | None, journal: Path | None, *, always: bool
) -> None:
    """Approve a message: this one, or --always. DIGEST is what agentserver approvals show ends with, or its beginning.

    The answer is for the message that was shown, and is spent once.
    """
    from agentserver.core.state.approvals import Answer

    kept = source(ctx, organism, journal)
    found, _ = _waiting(ctx, kept)
    one = _digested(ctx, found, digest)
    _check_other(ctx, kept, one, _rules(organism))
    _answer(ctx, kept, one, Answer.ALWAYS if always else Answer.ONCE)


@click.command("deny", short_help="Refuse a message that waits.")
@click.argument("approval")
@journal_option
@click.pass_context
def deny(ctx: click.Context, approval: str, organism: Path | None, journal: Path | None) -> None:
    """Refuse the message of APPROVAL, the id or its beginning; its sender learns so. Takes back an approve."""
    from agentserver.core.state.approvals import Answer

    kept = source(ctx, organism, journal)
    found, _ = _waiting(ctx, kept)
    one = _chosen(ctx, found, approval)
    if len(approval) < SHORT:  # what was meant may be gone, and this another one
        project.refuse(ctx, f"{approval!r} is too short to be sure: name it by {SHORT} characters or more")
    _answer(ctx, kept, one, Answer.DENY)


def _waiting(ctx: click.Context, kept: Source) -> tuple[list[Approval], dict[str, ApprovalAnswer]]:
    """The messages that wait, and the answers that no server has taken yet, by approval."""
    with reading(ctx, kept) as reader:
        each = legible(reader, reader.approvals)
        found = sorted((one for many in each for one in many), key=lambda approval: approval.at)
        answers = reader.answers() if found else ()
    return found, {answered.approval: answered for answered, _ in answers}


def _answer(ctx: click.Context, kept: Source, one: Approval, answer: Answer) -> None:
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.engines.sqlite.care import answers as journal_answers

    answered = ApprovalAnswer(one.id, one.digest, answer, project.user())
    with refusing(ctx):
        if kept.shared is not None:
            from agentserver.engines.journal.care import answers
            from agentserver.engines.postgres.command import changing  # with an extra that most do without

            with changing(kept.shared) as connection:
                left = answers.put(connection, answered, time.time())
        elif kept.path is not None:
            left = journal_answers.leave(kept.path, answered, time.time())
        else:
            project.refuse(ctx, "this engine takes no answers from the command line")
    if not left:
        _, given = _waiting(ctx, kept)
        project.refuse(ctx, f"{_route(one)}{_answered(given.get(one.id)) or ' is answered already'}")
    click.echo(f"{_route(one)}: {answer}; {TAKEN}")


def _chosen(ctx: click.Context, found: list[Approval], prefix: str) -> Approval:
    matching = [one for one in found if one.id.startswith(prefix)]
    return the_only(ctx, matching, f"messages wait for an approval under {prefix!r}")


def _digested(ctx: click.Context, found: list[Approval], prefix: str) -> Approval:
    """The message whose digest begins so: who names it was shown all of it."""
    matching = [one for one in found if one.digest.startswith(prefix)]
    if len(prefix) >= DIGEST and len(matching) == 1:
        return matching[0]
    known = any(one.id.startswith(prefix) or one.digest.startswith(prefix) for one in found)
    why = f"no messages wait for an approval under {prefix!r}"
    if prefix and known:
        shows = f"agentserver approvals show {prefix}"
        why = f"name it by {DIGEST} characters or more of its digest, which is the last line of: {shows}"
    return project.refuse(ctx, why)


def _check_other(ctx: click.Context, kept: Source, one: Approval, rules: Rules | None) -> None:
    """End the command when the organism wants another person to approve it. The server looks again."""
    from agentserver.core.decide import approving

    if rules is None or rules.blueprint.limits.approvers == "anyone":
        return
    with reading(ctx, kept, rules.guards) as reader:
        conversation = reader.load(one.delivery.conversation)
    why = "" if conversation is None else approving.barred(conversation, project.user(), rules)
    if why:
        project.refuse(ctx, why)


def _origins(ctx: click.Context, kept: Source, one: Approval, rules: Rules | None) -> Origins | None:
    """The origins of what a message says; None where no organism that follows them is known."""
    if rules is None:
        return None
    with reading(ctx, kept, rules.guards) as reader:
        conversation = reader.load(one.delivery.conversation)
    return None if conversation is None else rules.origins(conversation, one.delivery)


def _rules(organism: Path | None) -> Rules | None:
    """The rules of the organism that is named or found here; None where there is none, or it does not load."""
    from agentserver import config, rulebook
    from agentserver.payload.xmlify import PayloadError

    file = project.found(organism)
    try:
        return None if file is None else rulebook.rules(config.load(file, environ=os.environ))
    except (config.ConfigError, PayloadError):
        return None


def _without(one: Approval, secrets: Secrets) -> Approval:
    """A message that waits, as it may be shown."""
    from agentserver.core.records.details import reworded

    message = secrets.redact(one.delivery.message.decode("utf-8", "backslashreplace")).encode()
    questions = tuple(each._replace(why=reworded(each.why, secrets.redact)) for each in one.questions)
    return one._replace(delivery=one.delivery._replace(message=message), questions=questions)


def _route(one: Approval) -> str:
    from agentserver.characters.printing import escape_unseen
    from agentserver.payload.names import local

    delivery = one.delivery
    return escape_unseen(f"{delivery.sender} -> {delivery.to} {local(delivery.root)}")


def _answered(answered: ApprovalAnswer | None) -> str:
    from agentserver.characters.printing import escape_unseen

    return (
        ""
        if answered is None
        else f", answered {answered.answer} by {escape_unseen(answered.by)}, which no server has read"
    )


def _line(one: Approval, answered: ApprovalAnswer | None) -> str:
    from agentserver.characters.printing import escape_unseen
    from agentserver.core.records.wording import WORDING

    question = escape_unseen(WORDING.first(one.questions[0].why))[:200]
    return f"{one.id}  {when(one.at)}  {_route(one)}  {question}{_answered(answered)}"


def _question(question: Question) -> dict[str, object]:
    from agentserver.core.encoding.codecs import DETAILS
    from agentserver.core.records.wording import WORDING

    why = question.why
    return {
        "guard": question.guard,
        "why": DETAILS.plain(why),
        "text": WORDING.whole(why),
        "about": question.about,
    }


def _fields(one: Approval, answered: ApprovalAnswer | None) -> dict[str, object]:
    from agentserver.payload.names import local

    delivery = one.delivery
    return {
        "id": one.id,
        "at": one.at,
        "conversation": delivery.conversation,
        "sender": delivery.sender,
        "to": delivery.to,
        "root": local(delivery.root),
        "questions": [_question(question) for question in one.questions],
        "message": delivery.message.decode("utf-8", "backslashreplace"),
        "digest": one.digest,
        "answer": None if answered is None else {"said": answered.answer, "by": answered.by},
    }
