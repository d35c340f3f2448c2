"""``agentserver fork``: a new conversation that begins with the first steps of a recorded one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from agentserver.cli import project, reading
from agentserver.cli.dead import open_books

if TYPE_CHECKING:
    from agentserver.config import Organism
    from agentserver.core.guard import Rules
    from agentserver.core.messages import OutsideMessage


@click.command("fork", short_help="Begin a new conversation with the first steps of a recorded one.")
@click.argument("conversation")
@click.option("--at", type=click.IntRange(min=1), help="The last step; without it the steps are listed.")
@click.option(
    "--with",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a value of the message from outside at this step.",
)
@click.option("--live", is_flag=True, help="Call sinks, and do external effects.")
@reading.add_journal_option
def command(
    storage: reading.Storage,
    conversation: str,
    *,
    at: int | None,
    changes: tuple[str, ...],
    live: bool,
) -> None:
    """Begin a new conversation with the steps of CONVERSATION, an id or its beginning, up to one of them.

    The server must not be running, unless servers share a database. The next run continues from there with the
    present code.

    Labels and rights are kept; approvals, charges, external effects and idempotency keys are not. Without --live,
    no handler of a sink runs and no external effect happens: the sender gets the refusal denied. A changed value
    counts as the principal's own words. Answers wait for the principal, as in any conversation.
    """
    from agentserver.assembly import SystemClock
    from agentserver.history.fork import ForkError, ForkPlan, fork, list_steps

    organism = project.load(storage.organism)
    with open_books(storage) as books:
        key = reading.find_conversation(books.reader, conversation)
        recorded = reading.read_recorded_conversation(books.reader, key)
        if at is None:
            if changes or live:
                project.refuse("--with and --live need --at")
            for version, subject in list_steps(recorded, books.rules):
                click.echo(f"step {version}: {subject}")
            return
        dry = None if live else _list_sinks(organism)
        change = partial(_change, changes=changes, rules=books.rules) if changes else None
        with project.refuse_on(ForkError):
            outcomes = list(fork(recorded, ForkPlan(at, dry, change), books.rules, SystemClock().moment))
        books.commit_all(outcomes, quietly=True)
    if dry == ():
        project.say("no listener is declared a sink (provenance:), so that every handler is called", err=True)
    kind = "live" if live else "dry"
    click.echo(f"{outcomes[-1].conversation.id} is a {kind} fork of {key} at step {at}")


def _list_sinks(organism: Organism) -> tuple[str, ...]:
    """List the listeners that provenance judges as sinks, those without a declaration included."""
    if organism.provenance is None:
        return ()
    policy = organism.provenance.policy
    return tuple(name for each in organism.listeners if policy.classify(name := each.listener.name).sink)


def _change(outside: OutsideMessage, changes: tuple[str, ...], rules: Rules) -> OutsideMessage:
    """Change values of a message from outside. Ends the command if the result is not valid."""
    from agentserver.wire.envelope import Envelope, Malformed, canonical, read_either

    read = read_either(outside.data, rules.bounds)
    if isinstance(read, Malformed):
        project.refuse("the message at this step cannot be read")
    payload = read.payload if isinstance(read, Envelope) else read
    for change in changes:
        field, equals, value = change.partition("=")
        if not equals:
            project.refuse(f"{change!r} is no FIELD=VALUE")
        node = payload
        for name in field.split("."):
            found = [child for child in node if child.tag == f"{{{payload.nsmap.get(payload.prefix)}}}{name}"]
            if len(found) != 1:
                known = ", ".join(str(child.tag).rpartition("}")[2] for child in node)
                project.refuse(f"the message has {len(found) or 'no'} values of {field}", f"it has {known}")
            node = found[0]
        if len(node):
            project.refuse(f"{field} is a record, not one value")
        node.text = value
    codec = rules.codecs.for_root(str(payload.tag))
    if codec is None or not codec.valid(payload):
        project.refuse("the changed message does not satisfy its schema")
    to = outside.to or (read.to if isinstance(read, Envelope) else None)
    return outside._replace(data=canonical(payload), to=to)
