"""``agentserver approvals``, ``approve`` and ``deny``: messages of a journal that wait for a person.

The server decides whether an answer is still valid when it reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import escape_unseen
from agentserver.cli import project, reading
from agentserver.cli.project import Verbs
from agentserver.payload.names import local

if TYPE_CHECKING:
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Question
    from agentserver.core.state.approvals import Answer, Approval, ApprovalAnswer, LastingApproval
    from agentserver.findings import Origins

MIN_DIGEST = 12
"""Shortest beginning of a digest that approves a message."""

LASTING = "agentserver approvals lasting"
"""Command that lists endorsements."""

WAITING = "messages wait for an approval under"
"""Describes the matches of a beginning of an id."""


@click.group(
    "approvals",
    cls=Verbs,
    short_help="List or show messages that wait for approval.",
    invoke_without_command=True,
)
@reading.redaction_option
@reading.list_options
def command(arguments: reading.JournalArguments, *, lists: reading.ListPrinter) -> None:
    """List the messages of the journal that wait for a person's approval, oldest first.

    Answer with agentserver approve and agentserver deny. All three work with or without a running server.
    """
    source, secrets = reading.find_source_and_secrets(arguments)
    found, answers = _list_waiting(source)
    lists.print(
        (_redact_approval(one, secrets) for one in found),
        lambda one: _approval_line(one, answers.get(one.id)),
        lambda one: _approval_fields(one, answers.get(one.id)),
        "no message waits for an approval",
    )


@command.command("show")
@click.argument("approval")
@reading.redaction_option
def show(arguments: reading.JournalArguments, approval: str) -> None:
    """Show APPROVAL, an id or its beginning, in full: the guards' questions, the lineage, and the message.

    The message is shown as fields, if the organism is known, and as it is sent; texts are quoted, one line for
    each piece. The last line is the digest that approves it.
    """
    from agentserver.gateways import approval_view
    from agentserver.trace.terminal import paint

    source, secrets = reading.find_source_and_secrets(arguments)
    found, answers = _list_waiting(source)
    one, rules = reading.find_match(found, approval, WAITING), project.rules_or_none(arguments.organism)
    delivery = one.delivery
    click.echo(
        f"approval {one.id}, asked {reading.format_time(one.at)}{_describe_answer(answers.get(one.id))}"
    )
    click.echo(f"{_describe_route(one)}, hop {delivery.hop}, in conversation {delivery.conversation}")
    shown = [
        *approval_view.reasons(_redact_approval(one, secrets)),
        *(approval_view.message_lines(one, rules.codecs, secrets.redact)[:-1] if rules else ()),
        *approval_view.origin_lines(_origins(source, one, rules), secrets.redact),
        *approval_view.message_lines(one, None, secrets.redact),
    ]
    for line in shown:
        click.echo(paint(line, colour=False, whole=True))


@command.command("lasting")
@reading.journal_option
@reading.list_options
def lasting(arguments: reading.JournalArguments, *, lists: reading.ListPrinter) -> None:
    """List the approvals that cover later messages of open conversations: endorsed documents.

    agentserver deny ID revokes one.
    """
    rules = project.rules_or_none(arguments.organism)
    if rules is None:
        project.refuse("the organism is not known here: name it with --organism")
    lists.print(
        _list_lasting(reading.find_source(arguments), rules),
        lambda one: (
            f"{one[1].name_in(one[0])}  until {reading.format_time(one[1].until)}  {one[1].to}  {one[1].subject}"
        ),
        lambda one: {**one[1]._asdict(), "id": one[1].name_in(one[0]), "conversation": one[0]},
        "no approval lasts",
    )


def _list_lasting(source: reading.Source, rules: Rules) -> list[tuple[str, LastingApproval]]:
    """List the lasting approvals of open conversations, each with the id of its conversation."""
    with reading.open_reader(source, rules.guards) as reader:
        keys = [one.id for one in reader.conversations() if one.closed is None]
        loaded = [*reading.read_each(reader, reader.load, keys)]
    return [(one.id, each) for one in loaded if one is not None for each in rules.list_lasting(one)]


@click.command("approve", short_help="Approve a message that waits.")
@click.argument("digest")
@click.option(
    "--always",
    is_flag=True,
    help="Approve all messages that the guard considers the same, in this conversation.",
)
@reading.journal_option
def approve(arguments: reading.JournalArguments, digest: str, *, always: bool) -> None:
    """Approve the message with DIGEST; --always also approves later ones like it.

    DIGEST is the last line of agentserver approvals show, or its beginning.

    The answer is valid for the message that was shown, and only once.
    """
    from agentserver.core.state.approvals import Answer

    source = reading.find_source(arguments)
    found, _ = _list_waiting(source)
    one = _find_by_digest(found, digest)
    _check_other(source, one, project.rules_or_none(arguments.organism))
    _record_answer(source, one, Answer.ALWAYS if always else Answer.ONCE)


@click.command("deny", short_help="Deny a message that waits.")
@click.argument("approval")
@reading.journal_option
def deny(arguments: reading.JournalArguments, approval: str) -> None:
    """Deny the message of APPROVAL, an id or its beginning; its sender gets a refusal. Revokes an approve.

    The id of agentserver approvals lasting revokes an endorsement: later messages are asked about again.
    """
    from agentserver.core.state.approvals import Answer

    source = reading.find_source(arguments)
    if "@" in approval:
        _revoke(source, arguments, approval)
        return
    found, _ = _list_waiting(source)
    if not any(one.id.startswith(approval) for one in found) and _is_part_of_lasting(
        source, arguments, approval
    ):
        project.refuse(
            f"{approval!r} begins the id of an endorsement, which is needed whole: {LASTING} has it"
        )
    one = reading.find_match(found, approval, WAITING, decides=True)
    _record_answer(source, one, Answer.DENY)


def _is_part_of_lasting(source: reading.Source, arguments: reading.JournalArguments, approval: str) -> bool:
    """Check whether a text begins the id of an approval that covers later messages."""
    rules = project.rules_or_none(arguments.organism)
    found = [] if rules is None or not approval else _list_lasting(source, rules)
    return any(each.name_in(key).startswith(approval) for key, each in found)


def _revoke(source: reading.Source, arguments: reading.JournalArguments, approval: str) -> None:
    """Leave a denial that revokes an approval that covers later messages."""
    from agentserver.core.state.approvals import Answer, ApprovalAnswer
    from agentserver.engines.journal import records

    rules = project.rules_or_none(arguments.organism)
    found = [] if rules is None else _list_lasting(source, rules)
    one = next((each for key, each in found if each.name_in(key) == approval), None)
    if one is None:
        project.refuse(f"no lasting approval has the id {approval!r}: {LASTING} lists them")
    answered = ApprovalAnswer(approval, one.id, Answer.DENY, project.user())
    reading.leave(source, lambda connection, at: records.put_answer(connection, answered, at))
    click.echo(f"{escape_unseen(one.to)} {escape_unseen(one.subject)}: revoked; {reading.PICKUP}")


def _list_waiting(source: reading.Source) -> tuple[list[Approval], dict[str, ApprovalAnswer]]:
    """List the waiting messages, and the answers that no server has read yet, by approval."""
    with reading.open_reader(source) as reader:
        each = reading.read_each(reader, reader.approvals)
        found = sorted((one for many in each for one in many), key=lambda approval: approval.at)
        answers = reader.answers() if found else ()
    return found, {answered.approval: answered for answered, _ in answers}


def _record_answer(source: reading.Source, one: Approval, answer: Answer) -> None:
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.engines.journal import records

    answered = ApprovalAnswer(one.id, one.digest, answer, project.user())
    if not reading.leave(source, lambda connection, at: records.put_answer(connection, answered, at)):
        _, answers = _list_waiting(source)
        project.refuse(
            f"{_describe_route(one)}{_describe_answer(answers.get(one.id)) or ' is answered already'}"
        )
    click.echo(f"{_describe_route(one)}: {answer}; {reading.PICKUP}")


def _find_by_digest(found: list[Approval], prefix: str) -> Approval:
    """Find the message by the beginning of its digest, which only a person who saw all of it knows."""
    matching = [one for one in found if one.digest.startswith(prefix)]
    if len(prefix) >= MIN_DIGEST and len(matching) == 1:
        return matching[0]
    known = any(one.id.startswith(prefix) or one.digest.startswith(prefix) for one in found)
    reason = f"no {WAITING} {prefix!r}"
    if prefix and known:
        shows = f"agentserver approvals show {prefix}"
        reason = f"give at least {MIN_DIGEST} characters of its digest, which is the last line of: {shows}"
    return project.refuse(reason)


def _check_other(source: reading.Source, one: Approval, rules: Rules | None) -> None:
    """End the command if the organism requires another approver. The server checks again."""
    from agentserver.core.decide import answers

    if rules is None or not rules.blueprint.others_approve(one.delivery.to):
        return
    with reading.open_reader(source, rules.guards) as reader:
        conversation = reader.load(one.delivery.conversation)
    reason = (
        ""
        if conversation is None
        else answers.bar_approver(conversation, project.user(), rules, one.delivery.to)
    )
    if reason:
        project.refuse(reason)


def _origins(source: reading.Source, one: Approval, rules: Rules | None) -> Origins | None:
    """Find the origins of a message's values; None if the organism is unknown or does not track them."""
    if rules is None:
        return None
    with reading.open_reader(source, rules.guards) as reader:
        conversation = reader.load(one.delivery.conversation)
    return None if conversation is None else rules.origins(conversation, one.delivery)


def _redact_approval(one: Approval, secrets: Secrets) -> Approval:
    """Redact secrets from a waiting message."""
    from agentserver.core.records.details import map_texts

    message = secrets.redact(one.delivery.message.decode("utf-8", "backslashreplace")).encode()
    questions = tuple(each._replace(reason=map_texts(each.reason, secrets.redact)) for each in one.questions)
    return one._replace(delivery=one.delivery._replace(message=message), questions=questions)


def _describe_route(one: Approval) -> str:
    return escape_unseen(_format_route(one))


def _format_route(one: Approval) -> str:
    delivery = one.delivery
    return f"{delivery.sender} -> {delivery.to} {local(delivery.root)}"


def _describe_answer(answered: ApprovalAnswer | None) -> str:
    return (
        ""
        if answered is None
        else f", answered {answered.answer} by {escape_unseen(answered.by)}, not yet read by a server"
    )


def _approval_line(one: Approval, answered: ApprovalAnswer | None) -> str:
    from agentserver.core.records.wording import WORDING

    question = WORDING.first(one.questions[0].reason)[:200]
    return f"{one.id}  {reading.format_time(one.at)}  {_format_route(one)}  {question}{_describe_answer(answered)}"


def _question_fields(question: Question) -> dict[str, object]:
    from agentserver.core.encoding.codecs import DETAILS
    from agentserver.core.records.wording import WORDING

    reason = question.reason
    return {
        "guard": question.guard,
        "why": DETAILS.plain(reason),
        "text": WORDING.join_lines(reason),
        "about": question.about,
    }


def _approval_fields(one: Approval, answered: ApprovalAnswer | None) -> dict[str, object]:
    delivery = one.delivery
    return {
        "id": one.id,
        "at": one.at,
        "conversation": delivery.conversation,
        "sender": delivery.sender,
        "to": delivery.to,
        "root": local(delivery.root),
        "questions": [_question_fields(question) for question in one.questions],
        "message": delivery.message.decode("utf-8", "backslashreplace"),
        "digest": one.digest,
        "answer": None if answered is None else {"said": answered.answer, "by": answered.by},
    }
