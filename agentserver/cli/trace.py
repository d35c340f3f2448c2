"""``agentserver trace``: what happened in a conversation, from the journal.

Owns the choice of the form. How records read is for gateways/trace_text.py and gateways/trace_html.py.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentserver.cli import project
from agentserver.cli.reading import one_conversation, reading, shown_option, source_and_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.core.audit import Record


class Form(StrEnum):
    """The form in which a trace is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@click.command("trace", short_help="Show what happened in a conversation.")
@click.argument("conversation")
@shown_option
@click.option("--json", "form", flag_value=Form.JSON, type=Form, help="One JSON object for each record.")
@click.option("--html", "form", flag_value=Form.HTML, type=Form, help="A page that needs nothing else.")
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
    from agentserver.gateways.trace_redact import Redaction, redacted

    kept, secrets = source_and_secrets(ctx, organism, journal)
    with reading(ctx, kept) as reader:
        key = one_conversation(ctx, reader, conversation)
        records = reader.story(key).records()
    records = redacted(records, Redaction(asked["fields"], secrets.redact))
    if asked["no_payloads"]:
        records = tuple(record._replace(message=b"") for record in records)
    project.write(asked["output"], _written(asked["form"], f"conversation {key}", records), private=True)


def _written(form: Form | None, title: str, records: Sequence[Record]) -> str:
    from agentserver.gateways import trace_html, trace_text

    match form:
        case Form.JSON:
            return "\n".join(trace_text.json_lines(records))
        case Form.HTML:
            return trace_html.page(title, records)
        case _:
            return trace_text.tree_text(records, payloads=True)
