"""``agentserver call``: one message from the shell, and its answer.

Owns the reading of field options and the printing of answers.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import project, session
from agentserver.cli.ending import GracefulEnd
from agentserver.cli.fields import CallCommand, chosen, complete_fields, complete_roots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from agentserver.assembly import Server
    from agentserver.core.messages import Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.payload.codec import Codec

REFUSED = 1
SILENT = 3


class Output(StrEnum):
    """The form in which answers are printed."""

    FIELDS = "fields"
    JSON = "json"
    XML = "xml"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """A request on the command line; see the options of ``command``."""

    listener: str
    fields: tuple[str, ...]
    file: BinaryIO | None
    root: str | None
    pairs: tuple[str, ...]
    timeout: float | None
    output: Output | None
    trace: str | None


class _Seconds(click.FloatRange):
    """A number of seconds; what is not a number lies in every range otherwise."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


@click.command(
    "call",
    cls=CallCommand,
    short_help="Send one message and print the answers.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("listener", shell_complete=project.listener_names)
@click.argument(
    "fields",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="--FIELD VALUE ...",
    shell_complete=complete_fields,
)
@project.organism_option
@click.option(
    "--payload", "file", type=click.File("rb"), help="Send the XML in this file; - is standard input."
)
@click.option("--root", shell_complete=complete_roots, help="Which payload, when LISTENER takes several.")
@click.option("--set", "pairs", multiple=True, metavar="FIELD=VALUE", help="A field of any name.")
@click.option("--timeout", type=_Seconds(min=0, min_open=True), help="Seconds to wait for answers.")
@click.option(
    "--json", "output", flag_value=Output.JSON, type=Output, help="Print answers as JSON, one a line."
)
@click.option("--xml", "output", flag_value=Output.XML, type=Output, help="Print answers as XML, one a line.")
@click.option(
    "--trace",
    type=click.Choice(["text", "json"]),
    help="Show the hops too, on standard error: a tree, or JSON lines.",
)
@click.pass_context
def command(ctx: click.Context, /, organism: Path | None, **asked: Any) -> None:
    """Send one message to LISTENER and print the answers.

    Fields are options by name: --text "good day" --count 3. Nested fields have dotted names (--lines.0.sku A1, the
    first item is 0), a list is given by repeating its option. A field that is called like an option of this command
    goes by --set. With a listener, --help lists its fields.

    Every answer is printed, until nothing more can come; without --timeout the deadlines of the listeners are the
    only limit. No person is asked for an approval: what needs one is refused at once.
    """
    call = CallOptions(**asked)
    values = _values(call.fields, call.pairs)
    if call.file is not None and values:
        raise click.UsageError("give fields or --payload, not both")
    server = project.server(ctx, project.load(ctx, organism), recorded=True)
    data = call.file.read() if call.file is not None else _compose(server, call, values)
    exchange = partial(_exchange, server, call, data, project.principal(server.organism))
    ending = GracefulEnd(server.organism.limits.drain, server.acquit)
    session.run(ctx, ending, partial(_interruptible, ending, exchange))


def _values(fields: tuple[str, ...], pairs: tuple[str, ...]) -> list[tuple[str, str]]:
    """``--a 1 --b=2`` as pairs, then those of ``--set``."""
    values: list[tuple[str, str]] = []
    rest = list(fields)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not name.startswith("--") or name == "--":
            raise click.UsageError(f"{name!r} is no --field: name the listener first, then --field value")
        if not equals:
            if not rest:
                raise click.UsageError(f"{name} needs a value")
            value = rest.pop(0)
        values.append((name[2:], value))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--set takes FIELD=VALUE, not {pair!r}")
        values.append((name, value))
    return values


def _compose(server: Server, call: CallOptions, values: list[tuple[str, str]]) -> bytes:
    from agentserver.gateways import form
    from agentserver.gateways.console.lines import usage

    codec = _codec(server, call.listener, call.root)
    made = form.compose(codec, values)
    if isinstance(made, bytes):
        return made
    from agentserver.characters.printing import one_line

    raise click.UsageError("\n".join(map(one_line, (*made.lines, f"{call.listener} takes: {usage(codec)}"))))


def _codec(server: Server, listener: str, root: str | None) -> Codec:
    from agentserver.payload.names import local

    codecs = chosen(server.rules, listener, root)
    if len(codecs) > 1:
        names = ", ".join(local(codec.name) for codec in codecs)
        raise click.UsageError(f"{listener} takes {names}: say which with --root")
    return codecs[0]


async def _interruptible(ending: GracefulEnd, exchange: Callable[[], Awaitable[int]]) -> int:
    """The exchange until a signal cancels it."""
    import anyio

    from agentserver.supervision import Ending, start_errand

    status = SILENT

    async def listen() -> None:
        nonlocal status
        number = await anext(ending.signals())
        status = 128 + number
        ending.begin(status)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        start_errand(tasks, "hears signals", Ending.OWNER, listen)
        status = await exchange()
        tasks.cancel_scope.cancel()
    return status


async def _exchange(server: Server, call: CallOptions, data: bytes, me: str) -> int:
    import anyio

    from agentserver.ports import QuotaError
    from agentserver.trace.redact import Redaction, redact_records

    status, unwritten = SILENT, None
    async with server:
        try:
            handle = await server.open(me)
        except QuotaError as error:
            click.echo(str(error), err=True)
            return REFUSED
        with anyio.move_on_after(call.timeout) as scope:
            status, unwritten = await _printed(server, handle.replies(data, call.listener), call)
        await handle.close()
    if unwritten is not None:
        raise unwritten
    records = redact_records(server.trace.of(handle.id), Redaction(secrets=server.organism.secrets.redact))
    _show_trace(call.trace, records)
    _show_asked(records)
    if scope.cancelled_caught:
        click.echo(f"no end of answers within {call.timeout:g} s", err=True)
        return SILENT
    if status == SILENT:
        click.echo("ended without an answer", err=True)
    return status


async def _printed(
    server: Server, replies: AsyncIterator[Reply], call: CallOptions
) -> tuple[int, OSError | None]:
    """Print the answers, as far as they can be written; gives the status, and why the others could not be."""
    import anyio.to_thread

    status, unwritten = SILENT, None
    async for reply in replies:
        if unwritten is not None:
            continue  # left half-way, the answers would be closed by whoever comes across them
        try:
            refused = await anyio.to_thread.run_sync(_print, server, reply, call.output or Output.FIELDS)
        except OSError as error:
            unwritten = error
        else:
            status = REFUSED if refused or status == REFUSED else 0
    return status, unwritten


def _show_trace(form: str | None, records: Sequence[AuditRecord]) -> None:
    from agentserver.trace.text import json_lines, tree_text

    if form == "text":
        click.echo(tree_text(records), err=True)
    elif form == "json":
        click.echo("\n".join(json_lines(records)), err=True)


def _show_asked(records: Sequence[AuditRecord]) -> None:
    """Say that an approval was needed: a call has no person to ask."""
    from agentserver.characters.printing import escape_unseen
    from agentserver.core.records.audit import Event
    from agentserver.core.records.wording import WORDING

    asked = [record for record in records if record.event is Event.ASKED]
    for record in asked:
        first, *more = WORDING.lines(record.detail)
        for line in (f"{record.sender} -> {record.to} {record.root} needed an approval: {first}", *more):
            click.echo(escape_unseen(line), err=True)
    if asked:
        click.echo("call asks nobody; agentserver run asks, or waits for agentserver approve", err=True)


def _print(server: Server, reply: Reply, output: Output) -> bool:
    """Print one answer. A SystemError goes to standard error; gives whether it is one."""
    from agentserver.contract import Code
    from agentserver.contract import SystemError as Refused
    from agentserver.core.messages import SYSTEM
    from agentserver.gateways.console.view import SPENT, decoded, field_lines
    from agentserver.trace.plain_values import jsonable
    from agentserver.trace.terminal import paint, visible_lines, wants_colour

    value = decoded(reply.message, server.rules.codecs)
    if isinstance(value, Refused):
        passed_on = "" if reply.sender == SYSTEM else f"{reply.sender}: "
        for line in visible_lines(f"{passed_on}{value.code}: {value.message}"):
            click.echo(line, err=True)
        if value.code is Code.BUDGET:
            click.echo(SPENT, err=True)
        return True
    if output is Output.JSON and value is not None:
        click.echo(json.dumps(jsonable(value)))
    elif output is Output.XML or value is None:
        click.echo(reply_markup(reply))
    else:
        colour = wants_colour(sys.stdout, os.environ)
        for each in field_lines(value, margin=""):
            click.echo(paint(each, colour=colour))
    return False


def reply_markup(reply: Reply) -> str:
    """The payload of a reply on one line that means the same: what is not seen stands as a character reference."""
    from agentserver.characters.printing import escape_markup
    from agentserver.wire import envelope
    from agentserver.wire.canonical import canonical

    read = envelope.read_envelope(reply.message)
    assert isinstance(read, envelope.Envelope)
    return escape_markup(canonical(read.payload).decode())
