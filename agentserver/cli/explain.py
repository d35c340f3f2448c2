"""``agentserver explain``: explains why something was refused, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from agentserver.cli import project, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.ports import EngineReader
    from agentserver.remedies import Remedy

SEARCHED: Final = 200
"""Most recent conversations in which a request or a delivery is searched."""

MIN_ID: Final = 4
"""Shortest beginning of an id."""


@click.command("explain", short_help="Explain why something was refused, and what to change.")
@click.argument("target", metavar="ID|CODE")
@reading.add_redaction_option
def command(storage: reading.Storage, target: str) -> None:
    """Explain why something was refused, where to look and what to change.

    CODE is the code of a refusal or a finding: routing, rule:destination, config:name, or a whole line from
    check, which ends with its code. ID is a conversation, request, delivery or dead letter of the journal, or
    the beginning of its id; then every refusal in it is explained. "agentserver explain codes" lists all codes.
    """
    from agentserver.remedies import find_remedies

    if target == "codes":
        project.say(*_iter_code_lines())
        return
    entries = find_remedies(target)
    if entries:
        for one in entries:
            project.say(*_format_entry_lines(one))
        return
    if len(target) < MIN_ID or not (target.isascii() and target.replace("-", "").isalnum()):
        project.refuse(f"no code and no finding is called {target!r}", "agentserver explain codes lists all")
    _explain(storage, target)


def _iter_code_lines() -> Iterator[str]:
    from agentserver.remedies import FAMILIES, REMEDIES

    for family, title in FAMILIES.items():
        yield title
        yield from (f"  {one.family}:{one.name}" for one in REMEDIES if one.family == family)


def _format_entry_lines(entry: Remedy, margin: str = "") -> Iterator[str]:
    """Format an entry as lines."""
    yield f"{margin}{entry.family}:{entry.name}  {entry.means}"
    yield f"{margin}  Look at: {entry.look}"
    yield f"{margin}  Change:  {entry.change}"


def _explain(storage: reading.Storage, prefix: str) -> None:
    """Explain every refusal of a conversation, request or delivery."""
    from agentserver.trace.redact import Redaction, redact_records
    from agentserver.trace.why import is_asked_about

    with storage.open_redacted() as (reader, secrets):
        key, chosen = _find_records(reader, prefix)
    refused = [
        record for record in redact_records(chosen, Redaction((), secrets.redact)) if is_asked_about(record)
    ]
    project.say(f"conversation {key}")
    if not refused:
        project.say(f"nothing in {prefix} was refused; agentserver trace {key[:8]} shows everything")
    shown: set[tuple[str, str]] = set()
    for record in refused:
        project.say("", *_format_refusal_lines(record, shown))


def _find_records(reader: EngineReader, prefix: str) -> tuple[str, Sequence[AuditRecord]]:
    """Find the conversation and records of an id. Ends the command unless it is unique."""
    keys = reader.find(prefix)
    if len(keys) == 1:
        return keys[0], reading.read_recorded_conversation(reader, keys[0]).records()
    if len(keys) > 1:
        project.refuse(f"{len(keys)} conversations begin with {prefix!r}")
    letters = reader.dead(prefix=prefix)
    latest = (summary.id for summary, _ in zip(reader.conversations(), range(SEARCHED), strict=False))
    for key in dict.fromkeys((*(letter.delivery.conversation for letter in letters), *latest)):
        records = reading.read_recorded_conversation(reader, key).records()
        chosen = [one for one in records if one.delivery.startswith(prefix) or one.request.startswith(prefix)]
        if chosen:
            return key, chosen
    return project.refuse(
        f"no conversation begins with {prefix!r}, and no request or delivery of the last {SEARCHED} does",
        "agentserver conversations lists them; agentserver explain codes lists all codes",
    )


def _format_refusal_lines(record: AuditRecord, shown: set[tuple[str, str]]) -> Iterator[str]:
    """Format one refusal with its grounds; an entry that was shown before is only named."""
    from agentserver.core.records.wording import WORDING
    from agentserver.remedies import find_remedy
    from agentserver.trace.why import list_grounds

    about = f"{record.sender} -> {record.to or '?'} {record.root}".rstrip()
    yield f"{record.event}  {about}{f'  {record.code}' if record.code else ''}"
    yield from (
        f"  {line}"
        for line in WORDING.describe_lines(record.detail, f"agentserver trace {record.conversation[:8]}")
    )
    for key in list_grounds(record):
        entry = find_remedy(*key)
        if entry is not None and key not in shown:
            shown.add(key)
            yield from _format_entry_lines(entry, "  ")
        else:
            yield f"  {':'.join(key)}"
