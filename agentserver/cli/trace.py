"""``agentserver trace``: what happened in a conversation, from the journal.

Owns the choice of the form. How records read is for trace/text.py and trace/html.py.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import project
from agentserver.cli.reading import (
    one_conversation,
    reading,
    recorded_conversation,
    shown_option,
    source_and_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.records.audit import AuditRecord


class TraceFormat(StrEnum):
    """The form in which a trace is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@click.command("trace", short_help="Show what happened in a conversation.")
@click.argument("conversation")
@shown_option
@click.option(
    "--json", "form", flag_value=TraceFormat.JSON, type=TraceFormat, help="One JSON object for each record."
)
@click.option(
    "--html", "form", flag_value=TraceFormat.HTML, type=TraceFormat, help="A page that needs nothing else."
)
@click.option("--no-payloads", is_flag=True, help="Leave out what the messages say.")
@click.option(
    "--redact",
    "fields",
    multiple=True,
    is_flag=False,
    flag_value="*",
    metavar="[FIELD]",
    help="Take the content of these fields out, by name or pattern; may be given again. Without FIELD, which must"
    " then come last or before another option: every payload, which leaves its length and its hash.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.pass_context
def command(
    ctx: click.Context, /, conversation: str, organism: Path | None, journal: Path | None, **asked: Any
) -> None:
    """Show what happened in CONVERSATION, the id or its beginning: an indented tree of calls with times.

    Secrets of the organism are never shown.
    """
    from agentserver.trace.redact import Redaction, redact_records

    kept, secrets = source_and_secrets(ctx, organism, journal)
    with reading(ctx, kept) as reader:
        key = one_conversation(ctx, reader, conversation)
        records = recorded_conversation(reader, key).records()
    records = redact_records(records, Redaction(asked["fields"], secrets.redact))
    if asked["no_payloads"]:
        records = tuple(record._replace(message=b"") for record in records)
    project.write(asked["output"], _written(asked["form"], f"conversation {key}", records), private=True)


def _written(form: TraceFormat | None, title: str, records: Sequence[AuditRecord]) -> str:
    from agentserver.trace import html, text

    match form:
        case TraceFormat.JSON:
            return "\n".join(text.json_lines(records))
        case TraceFormat.HTML:
            return html.page(title, records)
        case _:
            return text.tree_text(records, payloads=True)
