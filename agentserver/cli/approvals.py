"""``agentserver approvals``, ``approve`` and ``deny``: messages of a journal that wait for a person.

The server decides whether an answer is still valid when it reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentserver.characters.printing import escape_unseen
from agentserver.cli import listing, project, reading
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
@reading.add_redaction_option
@listing.add_list_options
def command(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the messages of the journal that wait for a person's approval, oldest first.

    Answer with agentserver approve and agentserver deny. All three work with or without a running server.
    """
    secrets = storage.secrets
    found, answers = _list_waiting(storage)
    rows = (_describe(_redact_approval(one, secrets), answers.get(one.id)) for one in found)
    lists.print(rows, COLUMNS, "no message waits for an approval")


ANSWER = listing.Column("answer", lambda row: row["answer"] and "{said} by {by}".format_map(row["answer"]))
COLUMNS = (
    listing.ID,
    listing.make_time_column("at"),
    listing.MESSAGE,
    listing.Column("question", lambda row: row["questions"][0]["text"].partition("\n")[0]),
    ANSWER,
)


@command.command("show")
@click.argument("approval")
@reading.add_redaction_option
@listing.add_record_options
def show(storage: reading.Storage, approval: str, *, shows: listing.RecordPrinter) -> None:
    """Show APPROVAL, an id or its beginning, in full: the guards' questions, the lineage, and the message.

    The message is shown as fields, if the organism is known, and as it is sent; texts are quoted, one line for
    each piece. The last line is the digest that approves it.
    """
    from agentserver.gateways import approval_view

    secrets = storage.secrets
    found, answers = _list_waiting(storage)
    one, rules = reading.find_match(found, approval, WAITING), project.build_rules_or_none(storage.organism)
    redacted = _redact_approval(one, secrets)
    row = _describe(redacted, answers.get(one.id))
    lines = (
        *approval_view.format_reasons(redacted),
        *(approval_view.format_message_lines(one, rules.codecs, secrets.redact)[:-1] if rules else ()),
        *approval_view.format_origin_lines(_find_origins(storage, one, rules), secrets.redact),
        *approval_view.format_message_lines(one, None, secrets.redact),
    )
    names = ("id", listing.make_time_column("at"), listing.MESSAGE, "hop", "conversation", ANSWER)
    shows.print(
        {**row, "hop": one.delivery.hop}, names, ("".join(text for _, text in line) for line in lines)
    )


@command.command("lasting")
@reading.add_journal_option
@listing.add_list_options
def list_lasting(storage: reading.Storage, *, lists: listing.ListPrinter) -> None:
    """List the approvals that cover later messages of open conversations: endorsed documents.

    agentserver deny ID revokes one.
    """
    rules = project.build_rules_or_none(storage.organism)
    if rules is None:
        project.refuse("the organism is not known here: name it with --organism")
    found = _list_lasting(storage, rules)
    rows = ({**one._asdict(), "id": one.name_in(key), "conversation": key} for key, one in found)
    lists.print(rows, ("id", listing.make_time_column("until"), "to", "subject"), "no approval lasts")


def _list_lasting(storage: reading.Storage, rules: Rules) -> list[tuple[str, LastingApproval]]:
    """List the lasting approvals of open conversations, each with the id of its conversation."""
    with storage.open(rules.guards) as reader:
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
@reading.add_journal_option
def approve(storage: reading.Storage, digest: str, *, always: bool) -> None:
    """Approve the message with DIGEST; --always also approves later ones like it.

    DIGEST is the last line of agentserver approvals show, or its beginning.

    The answer is valid for the message that was shown, and only once.
    """
    from agentserver.core.state.approvals import Answer

    found, _ = _list_waiting(storage)
    one = _find_by_digest(found, digest)
    _check_other(storage, one, project.build_rules_or_none(storage.organism))
    _record_answer(storage, one, Answer.ALWAYS if always else Answer.ONCE)


@click.command("deny", short_help="Deny a message that waits.")
@click.argument("approval")
@reading.add_journal_option
def deny(storage: reading.Storage, approval: str) -> None:
    """Deny the message of APPROVAL, an id or its beginning; its sender gets a refusal. Revokes an approve.

    The id of agentserver approvals lasting revokes an endorsement: later messages are asked about again.
    """
    from agentserver.core.state.approvals import Answer

    if "@" in approval:
        _revoke(storage, approval)
        return
    found, _ = _list_waiting(storage)
    if not any(one.id.startswith(approval) for one in found) and _find_lasting(storage, approval):
        project.refuse(
            f"{approval!r} begins the id of an endorsement, which is needed whole: {LASTING} has it"
        )
    one = reading.find_match(found, approval, WAITING, decides=True)
    _record_answer(storage, one, Answer.DENY)


def _find_lasting(storage: reading.Storage, prefix: str) -> dict[str, LastingApproval]:
    """Find the approvals that cover later messages by the beginning of their ids; none without an organism."""
    rules = project.build_rules_or_none(storage.organism)
    found = [] if rules is None or not prefix else _list_lasting(storage, rules)
    return {name: each for key, each in found if (name := each.name_in(key)).startswith(prefix)}


def _revoke(storage: reading.Storage, approval: str) -> None:
    """Leave a denial that revokes an approval that covers later messages."""
    from agentserver.core.state.approvals import Answer, ApprovalAnswer
    from agentserver.engines.journal import records

    one = _find_lasting(storage, approval).get(approval)
    if one is None:
        project.refuse(f"no lasting approval has the id {approval!r}: {LASTING} lists them")
    answered = ApprovalAnswer(approval, one.id, Answer.DENY, project.name_user())
    storage.use_connection(lambda connection, at: records.put_answer(connection, answered, at))
    click.echo(f"{escape_unseen(one.to)} {escape_unseen(one.subject)}: revoked; {reading.PICKUP}")


def _list_waiting(storage: reading.Storage) -> tuple[list[Approval], dict[str, ApprovalAnswer]]:
    """List the waiting messages, and the answers that no server has read yet, by approval."""
    with storage.open() as reader:
        each = reading.read_each(reader, reader.approvals)
        found = sorted((one for many in each for one in many), key=lambda approval: approval.at)
        answers = reader.answers() if found else ()
    return found, {answered.approval: answered for answered, _ in answers}


def _record_answer(storage: reading.Storage, one: Approval, answer: Answer) -> None:
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.engines.journal import records

    answered = ApprovalAnswer(one.id, one.digest, answer, project.name_user())
    if not storage.use_connection(lambda connection, at: records.put_answer(connection, answered, at)):
        _, answers = _list_waiting(storage)
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


def _check_other(storage: reading.Storage, one: Approval, rules: Rules | None) -> None:
    """End the command if the organism requires another approver. The server checks again."""
    from agentserver.core.decide import answers

    if rules is None or not rules.blueprint.others_approve(one.delivery.to):
        return
    with storage.open(rules.guards) as reader:
        conversation = reader.load(one.delivery.conversation)
    reason = (
        ""
        if conversation is None
        else answers.bar_approver(conversation, project.name_user(), rules, one.delivery.to)
    )
    if reason:
        project.refuse(reason)


def _find_origins(storage: reading.Storage, one: Approval, rules: Rules | None) -> Origins | None:
    """Find the origins of a message's values; None if the organism is unknown or does not track them."""
    if rules is None:
        return None
    with storage.open(rules.guards) as reader:
        conversation = reader.load(one.delivery.conversation)
    return None if conversation is None else rules.origins(conversation, one.delivery)


def _redact_approval(one: Approval, secrets: Secrets) -> Approval:
    """Redact secrets from a waiting message."""
    from agentserver.core.records.details import map_texts

    message = secrets.redact(one.delivery.message.decode("utf-8", "backslashreplace")).encode()
    questions = tuple(each._replace(reason=map_texts(each.reason, secrets.redact)) for each in one.questions)
    return one._replace(delivery=one.delivery._replace(message=message), questions=questions)


def _describe_route(one: Approval) -> str:
    delivery = one.delivery
    return escape_unseen(f"{delivery.sender} -> {delivery.to} {local(delivery.root)}")


def _describe_answer(answered: ApprovalAnswer | None) -> str:
    return (
        ""
        if answered is None
        else f", answered {answered.answer} by {escape_unseen(answered.by)}, not yet read by a server"
    )


def _build_question_fields(question: Question) -> dict[str, object]:
    from agentserver.core.encoding.codecs import DETAILS
    from agentserver.core.records.wording import WORDING

    reason = question.reason
    return {
        "guard": question.guard,
        "why": DETAILS.plain(reason),
        "text": WORDING.join_lines(reason),
        "about": question.about,
    }


def _describe(one: Approval, answered: ApprovalAnswer | None) -> listing.Row:
    delivery = one.delivery
    return {
        "id": one.id,
        "at": one.at,
        "conversation": delivery.conversation,
        "sender": delivery.sender,
        "to": delivery.to,
        "root": local(delivery.root),
        "questions": [_build_question_fields(question) for question in one.questions],
        "message": delivery.message.decode("utf-8", "backslashreplace"),
        "digest": one.digest,
        "answer": None if answered is None else {"said": answered.answer, "by": answered.by},
    }
