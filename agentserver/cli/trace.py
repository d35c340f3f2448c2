"""``agentserver trace``: what happened in a conversation, from the journal.

Owns the choice of the form. How records read is for gateways/trace_text.py and gateways/trace_html.py.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from agentserver.cli import project
from agentserver.cli.journal import journal_option, located, one_conversation, reading


class Form(StrEnum):
    """What a trace is written as."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@click.command("trace", short_help="Show what happened in a conversation.")
@click.argument("conversation")
@journal_option
@click.option("--json", "form", flag_value=Form.JSON, type=Form, help="One JSON object for each record.")
@click.option("--html", "form", flag_value=Form.HTML, type=Form, help="A page that needs nothing else.")
@click.option("--no-payloads", is_flag=True, help="Leave out what the messages say.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.pass_context
def command(
    ctx: click.Context, /, conversation: str, organism: Path | None, journal: Path | None, **asked: Any
) -> None:
    """Show what happened in CONVERSATION, the id or its beginning: an indented tree of calls with times."""
    from agentserver.gateways import trace_html, trace_text

    with reading(ctx, located(ctx, organism, journal)) as reader:
        key = one_conversation(ctx, reader, conversation)
        records = reader.story(key).records()
    if asked["no_payloads"]:
        records = tuple(record._replace(message=b"") for record in records)
    match asked["form"]:
        case Form.JSON:
            text = "\n".join(trace_text.json_lines(records))
        case Form.HTML:
            text = trace_html.page(f"conversation {key}", records)
        case _:
            text = trace_text.tree_text(records)
    project.write(asked["output"], text)
