"""``agentserver conversations``, ``trace`` and ``top``: past and running conversations."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import listing, project, reading
from agentserver.cli.process import ExitCode
from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from agentserver.completion import RecordedCompletion
    from agentserver.core.encoding.history import ListedConversation
    from agentserver.core.records.audit import AuditRecord
    from agentserver.trace.comparison import StepPair


@click.command("conversations", short_help="List the conversations of the journal.")
@reading.add_journal_option
@click.option("--open", "only_open", is_flag=True, help="Only unfinished ones.")
@click.option("--principal", help="Only conversations of this principal.")
@click.option(
    "--where",
    default="",
    metavar="FILTER",
    help="Only conversations that meet all conditions, e.g. 'state=open cost>0.5 duration>=10s'.",
)
@click.option(
    "--after", default="", metavar="CURSOR", help="Continue after the page that ended with this cursor."
)
@listing.add_list_options
def conversations_command(
    storage: reading.Storage,
    *,
    only_open: bool,
    principal: str | None,
    where: str,
    after: str,
    lists: listing.ListPrinter,
) -> None:
    """List the conversations of the journal, most recently opened first.

    Fields of a FILTER: principal, listener, code, approver, refused and failed (yes, no), text (words that messages
    have), state (open, suspended, finished), opened and touched (in UTC, a day such as 2026-11-28 or a time such as
    2026-11-28T09:30), duration (10s, 5m, 2h, 1d), cost (US dollars), tokens, steps, waiting. Compare by
    = != < <= > >=.
    """
    from agentserver.core.encoding.history import Condition, ConversationFilter
    from agentserver.history.filters import parse_filter

    with project.refuse_on(ValueError, prefix="--where: "):
        conditions = parse_filter(where).conditions
    if only_open:
        conditions += (Condition("state", "!=", "finished"),)
    if principal is not None:
        conditions += (Condition("principal", "=", principal),)
    with storage.open() as reader:
        with project.refuse_on(ValueError, prefix="--after: "):
            page = reader.list_conversations(ConversationFilter(conditions), after, lists.limit)
        lists.print(map(_describe, page.rows), COLUMNS, "there are no such conversations")
    if page.after:
        project.say(f"there are more: --after {page.after} lists the next ones", err=True)


def _format_spent(row: listing.Row) -> str:
    from agentserver.spending import NOTHING_SPENT, Amount

    charged = Amount(row["tokens"], row["money"])
    return "" if charged == NOTHING_SPENT else str(charged)


COLUMNS = (
    listing.ID,
    listing.make_time_column("touched"),
    "state",
    "principal",
    "to",
    listing.Column(
        "codes", lambda row: [name for name in ("refused", "failed") if row[name]] + [*row["codes"]]
    ),
    "steps",
    "waiting",
    "unread",
    "approvers",
    listing.Column("spent", _format_spent),
    listing.make_time_column("due"),
)


def _describe(one: ListedConversation) -> listing.Row:
    found = {**one._asdict(), **one.summary._asdict()}
    return {key: value for key, value in found.items() if key not in {"summary", "first"}}


class TraceFormat(StrEnum):
    """Format of a trace."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@click.command("trace", short_help="Show what happened in a conversation.")
@click.argument("conversation")
@reading.add_redaction_option
@click.option(
    "--json", "form", flag_value=TraceFormat.JSON, type=TraceFormat, help="Print one JSON object per record."
)
@click.option(
    "--html", "form", flag_value=TraceFormat.HTML, type=TraceFormat, help="Write a self-contained page."
)
@click.option("--no-payloads", is_flag=True, help="Leave out the content of messages.")
@click.option(
    "--redact",
    "fields",
    multiple=True,
    is_flag=False,
    flag_value="*",
    metavar="[FIELD]",
    help="Redact the content of fields, by name or pattern; may be repeated. Without FIELD (then last, or before"
    " another option): redact every payload, except its length and hash.",
)
@project.output_option
def trace_command(storage: reading.Storage, conversation: str, **options: Any) -> None:
    """Show what happened in CONVERSATION, an id or its beginning: an indented tree of calls with times.

    Secrets of the organism are never shown.
    """
    from agentserver.history.flows import find_flow_lines
    from agentserver.trace.completions import drop_content, redact_completions
    from agentserver.trace.redact import Redaction, redact_records

    with storage.open_redacted() as (reader, secrets):
        key = reading.find_conversation(reader, conversation)
        recorded = reading.read_recorded_conversation(reader, key)
        asking = reader.list_completions(key)
        complete, lines_of = recorded.records(), find_flow_lines(recorded)
    redaction = Redaction(options["fields"], secrets.redact)
    records, completions = (
        redact_records(complete, redaction),
        redact_completions(asking, complete, redaction),
    )
    if options["no_payloads"]:
        records = tuple(record._replace(message=b"") for record in records)
        completions = drop_content(completions)
    shown = _format_trace(options["form"], f"conversation {key}", records, completions, lines_of)
    project.write(options["output"], shown, private=True)


@click.command("compare", short_help="Compare two conversations step by step.")
@click.argument("left")
@click.argument("right")
@reading.add_redaction_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step.")
@click.option("--all", "show_all", is_flag=True, help="Show also the steps that are the same in both.")
@click.option(
    "--redact", "fields", multiple=True, metavar="FIELD", help="Redact the content of fields, as of trace."
)
def compare_command(
    storage: reading.Storage,
    left: str,
    right: str,
    *,
    as_json: bool,
    show_all: bool,
    fields: Sequence[str],
) -> None:
    """Compare the conversations LEFT and RIGHT, each an id or its beginning: steps of one, and fields that differ.

    A step is the same if its event, sender, receiver, payload and code are. The exit code is 1 if anything differs.
    """
    from agentserver.trace.comparison import compare_records
    from agentserver.trace.redact import Redaction, redact_records

    with storage.open_redacted() as (reader, secrets):
        keys = [reading.find_conversation(reader, each) for each in (left, right)]
        both = [reading.read_recorded_conversation(reader, key).records() for key in keys]
    redaction = Redaction(tuple(fields), secrets.redact)
    pairs = compare_records(*(redact_records(records, redaction) for records in both))
    unpaired = sum(pair.left is None or pair.right is None for pair in pairs)
    changed = sum(bool(pair.fields) for pair in pairs)
    for pair in pairs:
        if show_all or pair.fields or pair.left is None or pair.right is None:
            _print_pair(pair, as_json=as_json)
    same = len(pairs) - unpaired - changed
    summary = f"{same} steps are the same, {changed} have other values, {unpaired} are in one of them"
    project.say(f"left {keys[0][:12]}, right {keys[1][:12]}: {summary}", err=as_json)
    project.exit_command(ExitCode.FOUND if unpaired or changed else 0)


def _print_pair(pair: StepPair, *, as_json: bool) -> None:
    from agentserver.payload.names import local

    hop = pair.left or pair.right
    assert hop is not None
    record = hop.record
    side = "right" if pair.left is None else "left" if pair.right is None else "both"
    if as_json:
        step = {key: getattr(record, key) for key in ("event", "sender", "to", "code")}
        differing = [one._asdict() for one in pair.fields]
        click.echo(json.dumps({"in": side, **step, "root": local(record.root), "fields": differing}))
        return
    sign = {"left": "<", "right": ">", "both": "~" if pair.fields else "="}[side]
    route = f"{record.sender} -> {record.to}" if record.to else record.sender
    head = " ".join(filter(None, (sign, str(record.event), route, local(record.root), record.code)))
    project.say(head)
    for one in pair.fields:
        old, new = ("(not there)" if each is None else repr(each[:VALUE]) for each in (one.left, one.right))
        project.say(f"    {one.name}: {old} -> {new}")


VALUE = 200
"""Characters of a value that a comparison shows."""


def _format_trace(
    form: TraceFormat | None,
    title: str,
    records: Sequence[AuditRecord],
    completions: Sequence[RecordedCompletion],
    lines_of: Mapping[str, int],
) -> str:
    from agentserver.trace import text

    match form:
        case TraceFormat.JSON:
            return "\n".join(text.iter_json_lines(records, completions, lines_of=lines_of))
        case TraceFormat.HTML:
            return text.render_page(title, records, completions, lines_of=lines_of)
        case _:
            return text.format_tree_text(records, completions, payloads=True, lines_of=lines_of)


_CLEAR = "\x1b[H\x1b[J"
"""Moves the cursor home and erases the screen."""


@click.command("top", short_help="Follow a running server live.")
@reading.add_journal_option
@click.option("--pid", type=int, help="Process to follow where several servers run in one folder.")
@click.option("--once", is_flag=True, help="Show the current state once and exit.")
def top_command(storage: reading.Storage, pid: int | None, *, once: bool) -> None:
    """Follow the server that runs an organism: conversations, queues, running handlers, refusals, approvals.

    On a terminal the screen refreshes each second, until Ctrl-C or the end of the server. Piped, it prints one
    JSON object per line each second.

    A verb that runs a server listens at a Unix socket next to the journal, or next to the organism's YAML if it
    keeps no journal. Only root and the user who runs the server can connect.
    """
    from agentserver.gateways import top

    path = _find_kept_file(storage)
    with project.refuse_on(OSError, prefix=f"{path}: "):
        servers = top.find_servers(path)
    if pid is None and len(servers) > 1:
        project.refuse(
            f"{path}: several servers run here; choose one with --pid: {', '.join(map(str, servers))}"
        )
    peer = servers.get(pid) if pid is not None else next(iter(servers.values()), None)
    if peer is None:
        process = "no server runs here" if pid is None else f"no server runs here with process id {pid}"
        project.refuse(f"{path}: {process} (agentserver run or agentserver serve starts one)")
    with peer:
        for line in _iter_overview_lines(peer):
            _show_overview(line)
            if once:
                return
    if sys.stdout.isatty():
        project.say("the server has ended", err=True)


def _find_kept_file(storage: reading.Storage) -> Path:
    """Find the file that a server's socket is named after."""
    if storage.journal is None and project.find_organism(storage.organism) is not None:
        file = project.find_organism_or_raise(storage.organism)
        seen = project.read_glimpse(file)
        if seen.unkept or seen.engine is not None:
            return file.resolve()
    return storage.path


def read_overviews(path: Path) -> list[Any]:
    """Read an overview of each server that runs for a journal here, and that this user may follow."""
    from agentserver.gateways import top

    found: list[Any] = []
    with suppress(OSError):
        for peer in top.find_servers(path).values():
            with peer:
                peer.settimeout(OVERVIEW)
                lines = islice(_iter_overview_lines(peer), 1)
                found += [parse_json_or_raise(line, JsonLimits()) for line in lines]
    return found


OVERVIEW = 5.0
"""Seconds for which a server is waited for."""


def _iter_overview_lines(peer: socket.socket) -> Iterator[str]:
    with peer.makefile(encoding="utf-8") as stream:
        yield from stream


def _show_overview(line: str) -> None:
    from agentserver.gateways import top
    from agentserver.trace.terminal import find_columns, format_paint, wants_colour, wrap

    if not sys.stdout.isatty():
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    colour, width = wants_colour(sys.stdout, os.environ), find_columns(sys.stdout) or 80
    pieces = (
        piece
        for each in top.format_lines(parse_json_or_raise(line, JsonLimits()))
        for piece in wrap(each, width)
    )
    sys.stdout.write(_CLEAR + "".join(f"{format_paint(piece, colour=colour)}\n" for piece in pieces))
    sys.stdout.flush()
