"""``agentserver call`` and ``completion``: one message from the shell, and help and completion for its fields.

Help and completion load the organism, as ``agentserver check`` does, and start nothing.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from agentserver.characters.printing import escape_markup, escape_unseen, one_line
from agentserver.cli import host, project
from agentserver.cli.process import ExitCode, GracefulEnd
from agentserver.payload.names import local

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from agentserver.assembly import Server
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.gateways.form import FormField
    from agentserver.payload.codec import Codec

_ITEMS = "N counts from 0: {name}.0, then {name}.1"


class CallCommand(click.Command):
    """Command ``call``, whose help and completion include the fields of the named listener."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; with a listener and --help among them, show that listener's help and exit."""
        if not ctx.resilient_parsing and set(args) & set(ctx.help_option_names):
            self._explain(ctx, args)
        elif ctx.resilient_parsing and args and args[-1] in self._list_options_with_value():
            args = args[:-1]  # its value is being completed; click would ignore the words before it
        return super().parse_args(ctx, args)

    def _list_options_with_value(self) -> set[str]:
        """List the options that take a value."""
        options = (each for each in self.params if isinstance(each, click.Option) and not each.is_flag)
        return {name for each in options for name in each.opts}

    def _explain(self, ctx: click.Context, args: Sequence[str]) -> None:
        parsed, _, _ = self.make_parser(ctx).parse_args([*args])
        listener, organism, root = (
            each if isinstance(each := parsed.get(name), str) else None
            for name in ("listener", "organism", "root")
        )
        help_option = self.get_help_option(ctx)
        if listener is None or help_option is None or not parsed.get(help_option.name):
            return
        rules = project.build_rules(project.load(Path(organism) if organism else None))
        for codec in select_codecs(rules, listener, root):
            project.say(*_iter_help_lines(ctx, rules, listener, codec))
        click.echo(f"\nOther options: {ctx.command_path} --help")
        ctx.exit()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options, and before them the fields that the listener still takes."""
        return [*complete_fields(ctx, self.params[0], incomplete), *super().shell_complete(ctx, incomplete)]


def map_codecs(rules: Rules, listener: str) -> Mapping[str, Codec]:
    """Map the root names of a listener's payloads to codecs. Raises click.UsageError for an unknown listener."""
    from agentserver.config.findings import did_you_mean

    known = rules.blueprint.listeners
    if listener not in known:
        hint = did_you_mean(listener, known) or f"there are: {', '.join(known)}"
        raise click.UsageError(f"no listener {listener!r}; {hint}")
    return {local(codec.name): codec for codec in map(rules.codecs.of, known[listener].payloads)}


def select_codecs(rules: Rules, listener: str, root: str | None) -> Sequence[Codec]:
    """List the codecs of a listener that a root selects, or all. Raises click.UsageError for a foreign root."""
    codecs = map_codecs(rules, listener)
    if root is not None and root not in codecs:
        raise click.UsageError(f"{listener} takes {', '.join(codecs)}: choose one with --root")
    return [*codecs.values()] if root is None else [codecs[root]]


def _iter_help_lines(ctx: click.Context, rules: Rules, listener: str, codec: Codec) -> Iterator[str]:
    """Yield the help lines for one payload of a listener."""
    from agentserver.gateways.form import INDEX, list_form_fields

    root = local(codec.name)
    several = len(rules.blueprint.listeners[listener].payloads) > 1
    yield f"Usage: {ctx.command_path} {listener}{f' --root {root}' if several else ''} --FIELD VALUE ..."
    yield ""
    yield f"  {rules.blueprint.listeners[listener].description}"
    described = codec.described
    if described is None:
        yield f"  {root} has a schema of its own and is sent as XML: --payload FILE"
        return
    if described.record.doc:
        yield f"  {root}: {' '.join(described.record.doc.split())}"
    fields = list_form_fields(codec)
    width = max((len(each.name) + 2 for each in fields), default=0)
    yield "" if fields else f"  {root} has no fields."
    for each in fields:
        label = f"{each.label}{' ...' if each.repeated else ''}"
        yield f"  {'--' + each.name:<{width}}  {label}{_format_remark(each)}"
        if each.doc:
            yield f"  {'':<{width}}  {each.doc}"
    lists = dict.fromkeys(each.path[: each.path.index(INDEX)] for each in fields if INDEX in each.path)
    for path in lists:
        yield f"  {_ITEMS.format(name='.'.join(path))}"
    yield ""
    words = [
        word for name, text in _iter_example_words(codec, fields) for word in (f"--{name}", shlex.quote(text))
    ]
    yield " ".join([f"  {ctx.command_path}", listener, *(["--root", root] if several else []), *words])


def _format_remark(field: FormField) -> str:
    if field.default is not None:
        return f"  [default: {field.default}]" if field.default else "  [default: empty]"
    *above, _ = field.path
    return f"  [required{' in ' if above else ''}{'.'.join(above)}]" if field.required else ""


def _iter_example_words(codec: Codec, fields: Sequence[FormField]) -> Iterator[tuple[str, str]]:
    """Yield the fields of the payload's example that differ from their defaults, as they are typed."""
    from lxml import etree

    known = {field.path: field for field in fields}
    root = etree.fromstring(codec.example(), etree.XMLParser(resolve_entities=False, no_network=True))
    yield from _iter_element_words(root, known, (), ())


def _iter_element_words(
    element: Any, known: Mapping[tuple[str, ...], FormField], path: tuple[str, ...], typed: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    from agentserver.gateways.form import INDEX

    if path in known:
        if (element.text or "") != known[path].default:
            yield ".".join(typed), element.text or ""
        return
    yield from ((".".join((*typed, name)), text) for name, text in element.attrib.items())
    counts: dict[str, int] = {}
    for child in element:
        name = local(child.tag)
        below = (*path, name)
        index = counts[name] = counts.get(name, -1) + 1
        listed = any(each[: len(below) + 1] == (*below, INDEX) for each in known)
        index_words, number = ((INDEX,), (str(index),)) if listed else ((), ())
        yield from _iter_element_words(child, known, (*below, *index_words), (*typed, name, *number))


def complete_fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a field of the listener, or a value of the last field."""
    del param
    words = [
        word for word in ctx.params.get("fields") or () if word != "="
    ]  # bash splits --field=value into three words
    fields = [*_iter_form_fields(ctx)]
    values = _list_value_choices(words, fields)
    if values is not None:
        return [CompletionItem(text) for text in values if text.startswith(incomplete)]
    used = {word.partition("=")[0] for word in words}
    return [
        CompletionItem(
            word, help=f"{field.label}{_format_remark(field)}{f'  {field.doc}' if field.doc else ''}"
        )
        for field in fields
        for word in _iter_next_options(field, used)
        if word.startswith(incomplete)
    ]


def complete_roots(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the payloads of the named listener."""
    del param
    return [CompletionItem(root) for root in _map_listener_codecs(ctx) if root.startswith(incomplete)]


def _iter_form_fields(ctx: click.Context) -> Iterator[FormField]:
    from agentserver.gateways.form import list_form_fields

    root = ctx.params.get("root")
    for name, codec in _map_listener_codecs(ctx).items():
        if root in {None, name}:
            yield from list_form_fields(codec)


def _map_listener_codecs(ctx: click.Context) -> Mapping[str, Codec]:
    """Map the root names of the named listener's payloads to codecs; empty for an unknown listener."""
    listener = str(ctx.params.get("listener"))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        rules = project.build_rules_or_none(ctx.params.get("organism"))
    if rules is None or listener not in rules.blueprint.listeners:
        return {}
    return map_codecs(rules, listener)


def _list_value_choices(words: Sequence[str], fields: Sequence[FormField]) -> tuple[str, ...] | None:
    """List the values that the last word asks for; None if it is not a field that needs one."""
    if not words or not words[-1].startswith("--") or "=" in words[-1]:
        return None
    path = tuple(words[-1][2:].split("."))
    return next((field.choices for field in fields if _matches_path(field, path)), ())


def _matches_path(field: FormField, path: Sequence[str]) -> bool:
    from agentserver.gateways.form import INDEX

    return len(field.path) == len(path) and all(
        part.isdecimal() if name == INDEX else name == part
        for name, part in zip(field.path, path, strict=True)
    )


def _iter_next_options(field: FormField, used: set[str]) -> Iterator[str]:
    """Yield the options for a field: of the last item that lacks it, and of a new item."""
    from agentserver.gateways.form import INDEX

    names = [field.name]
    while INDEX in names[0].split("."):
        names = [each for name in names for each in _iter_number_items(name, used)]
    for name in names:
        if f"--{name}" not in used or field.repeated:
            yield f"--{name}"


def _iter_number_items(name: str, used: set[str]) -> Iterator[str]:
    """Yield a name with its first INDEX replaced by the number of the last item and of the next."""
    from agentserver.gateways.form import INDEX

    parts = name.split(".")
    place = parts.index(INDEX)
    head = "--" + ".".join(parts[:place]) + "."
    numbers = (word.removeprefix(head).split(".")[0] for word in used if word.startswith(head))
    known = (int(number) for number in numbers if number.isdecimal() and len(number) < 10)  # noqa: PLR2004 - digits
    last = max(known, default=-1)
    for index in range(max(last, 0), last + 2):
        yield ".".join([*parts[:place], str(index), *parts[place + 1 :]])


class Output(StrEnum):
    """Format of printed answers."""

    FIELDS = "fields"
    JSON = "json"
    XML = "xml"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Request on the command line; see the options of ``command``."""

    listener: str
    fields: tuple[str, ...]
    file: BinaryIO | None
    root: str | None
    pairs: tuple[str, ...]
    timeout: float | None
    output: Output | None
    trace: str | None


class _Seconds(click.FloatRange):
    """Number of seconds, which must not be NaN."""

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
@click.argument("listener", shell_complete=project.complete_listener_names)
@click.argument(
    "fields",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="--FIELD VALUE ...",
    shell_complete=complete_fields,
)
@project.add_organism_option
@click.option(
    "--payload", "file", type=click.File("rb"), help="Send the XML in this file; - for standard input."
)
@click.option("--root", shell_complete=complete_roots, help="Payload to send, if LISTENER takes several.")
@click.option("--set", "pairs", multiple=True, metavar="FIELD=VALUE", help="Set a field of any name.")
@click.option("--timeout", type=_Seconds(min=0, min_open=True), help="Seconds to wait for answers.")
@click.option(
    "--json", "output", flag_value=Output.JSON, type=Output, help="Print answers as JSON, one per line."
)
@click.option(
    "--xml", "output", flag_value=Output.XML, type=Output, help="Print answers as XML, one per line."
)
@click.option(
    "--trace",
    type=click.Choice(["text", "json"]),
    help="Also show the hops on standard error: as a tree, or as JSON lines.",
)
def command(organism: Path | None, **options: Any) -> None:
    """Send one message to LISTENER and print the answers.

    Fields are options by name: --text "good day" --count 3. Nested fields have dotted names (--lines.0.sku A1,
    the first item is 0); repeat the option for a list. Use --set for a field with the name of an option of this
    command. --help after a listener lists its fields.

    No journal is kept: a flow that sleeps ends with the command. Answers are printed until none can follow.
    Without --timeout only the listeners' deadlines limit the wait. Nobody is asked for an approval: a message that
    needs one is refused at once.
    """
    call = CallOptions(**options)
    values = _parse_fields(call.fields, call.pairs)
    if call.file is not None and values:
        raise click.UsageError("give fields or --payload, not both")
    server = project.build_server(project.load(organism), recorded=True)
    data = call.file.read() if call.file is not None else _compose_message(server, call, values)
    exchange = partial(_exchange, server, call, data, project.choose_principal(server.organism))
    ending = GracefulEnd(server.organism.limits.drain, server.acquit)
    host.run_session(ending, partial(host.run_until_signal, ending, exchange, lambda number: 128 + number))


def _parse_fields(fields: tuple[str, ...], pairs: tuple[str, ...]) -> list[tuple[str, str]]:
    """Parse ``--a 1 --b=2`` and the pairs of ``--set`` into names and values."""
    values: list[tuple[str, str]] = []
    remaining = list(fields)
    while remaining:
        name, equals, value = remaining.pop(0).partition("=")
        if not name.startswith("--") or name == "--":
            raise click.UsageError(f"{name!r} is no --field: name the listener first, then --field value")
        if not equals:
            if not remaining:
                raise click.UsageError(f"{name} needs a value")
            value = remaining.pop(0)
        values.append((name[2:], value))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--set takes FIELD=VALUE, not {pair!r}")
        values.append((name, value))
    return values


def _compose_message(server: Server, call: CallOptions, values: list[tuple[str, str]]) -> bytes:
    from agentserver.gateways import form
    from agentserver.gateways.console.lines import describe_usage

    codec = _find_codec(server, call.listener, call.root)
    composed = form.compose(codec, values)
    if isinstance(composed, bytes):
        return composed
    raise click.UsageError(
        "\n".join(map(one_line, (*composed.lines, f"{call.listener} takes: {describe_usage(codec)}")))
    )


def _find_codec(server: Server, listener: str, root: str | None) -> Codec:
    codecs = select_codecs(server.rules, listener, root)
    if len(codecs) > 1:
        names = ", ".join(local(codec.name) for codec in codecs)
        raise click.UsageError(f"{listener} takes {names}: choose one with --root")
    return codecs[0]


async def _exchange(server: Server, call: CallOptions, data: bytes, me: str) -> int:
    import anyio

    from agentserver.ports import QuotaError
    from agentserver.trace.redact import Redaction, redact_records

    status, unwritten = int(ExitCode.SILENT), None
    async with server:
        try:
            handle = await server.open(me)
        except QuotaError as error:
            click.echo(str(error), err=True)
            return ExitCode.FOUND
        with anyio.move_on_after(call.timeout) as scope:
            status, unwritten = await _print_answers(server, handle.replies(data, call.listener), call)
        await handle.close()
    if unwritten is not None:
        raise unwritten
    records = redact_records(
        server.trace.list_records(handle.id), Redaction(secrets=server.organism.secrets.redact)
    )
    _show_trace(call.trace, records)
    _report_approvals(records)
    if scope.cancelled_caught:
        click.echo(f"not all answers came within {call.timeout:g} s", err=True)
        return ExitCode.SILENT
    if status == ExitCode.SILENT:
        click.echo("ended without an answer: no handler returned one", err=True)
    return status


async def _print_answers(
    server: Server, replies: AsyncIterator[Reply], call: CallOptions
) -> tuple[int, OSError | None]:
    """Print the answers as long as the output can be written. Returns the status and the output error."""
    import anyio.to_thread

    status, unwritten = int(ExitCode.SILENT), None
    async for reply in replies:
        if unwritten is not None:
            continue  # read the rest, so that the generator is closed here
        try:
            refused = await anyio.to_thread.run_sync(
                _print_answer, server, reply, call.output or Output.FIELDS
            )
        except OSError as error:
            unwritten = error
        else:
            status = ExitCode.FOUND if refused or status == ExitCode.FOUND else 0
    return status, unwritten


def _show_trace(form: str | None, records: Sequence[AuditRecord]) -> None:
    from agentserver.trace.text import format_tree_text, iter_json_lines

    if form == "text":
        click.echo(format_tree_text(records), err=True)
    elif form == "json":
        click.echo("\n".join(iter_json_lines(records)), err=True)


def _report_approvals(records: Sequence[AuditRecord]) -> None:
    """Report each approval that was needed: a call cannot ask a person."""
    from agentserver.core.records.audit import Event
    from agentserver.core.records.wording import WORDING

    requested = [record for record in records if record.event is Event.ASKED]
    for record in requested:
        first, *continuation = WORDING.describe_lines(record.detail)
        for line in (
            f"{record.sender} -> {record.to} {record.root} needed an approval: {first}",
            *continuation,
        ):
            click.echo(escape_unseen(line), err=True)
    if requested:
        click.echo(
            "call cannot ask a person; agentserver run asks, or waits for agentserver approve", err=True
        )


def _print_answer(server: Server, reply: Reply, output: Output) -> bool:
    """Print one answer, a SystemError to standard error. Returns whether it is one."""
    from agentserver.contract import Code
    from agentserver.contract import SystemError as Refused
    from agentserver.core.messages import SYSTEM
    from agentserver.gateways.console.view import SPENT, decode_payload, format_field_lines
    from agentserver.trace.terminal import format_paint, split_visible_lines, wants_colour
    from agentserver.trace.text import convert_jsonable

    value = decode_payload(reply.message, server.rules.codecs)
    if isinstance(value, Refused):
        prefix = "" if reply.sender == SYSTEM else f"{reply.sender}: "
        for line in split_visible_lines(f"{prefix}{value.code}: {value.message}"):
            click.echo(line, err=True)
        if value.code is Code.BUDGET:
            click.echo(SPENT, err=True)
        return True
    if output is Output.JSON and value is not None:
        click.echo(json.dumps(convert_jsonable(value)))
    elif output is Output.XML or value is None:
        click.echo(format_reply_markup(reply))
    else:
        colour = wants_colour(sys.stdout, os.environ)
        for each in format_field_lines(value, margin=""):
            click.echo(format_paint(each, colour=colour))
    return False


def format_reply_markup(reply: Reply) -> str:
    """Format the payload of a reply as one line of XML, invisible characters as character references."""
    from agentserver.wire import envelope
    from agentserver.wire.envelope import canonical

    read = envelope.read_envelope(reply.message)
    assert isinstance(read, envelope.Envelope)
    return escape_markup(canonical(read.payload).decode())


VARIABLE = "_AGENTSERVER_COMPLETE"


@click.command("completion", short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(agentserver completion bash)"           in ~/.bashrc
    zsh:   eval "$(agentserver completion zsh)"            in ~/.zshrc
    fish:  agentserver completion fish | source            in config.fish
    """  # noqa: D301 - click's mark for unwrapped lines
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.get_current_context().find_root().command, {}, "agentserver", VARIABLE).source())
