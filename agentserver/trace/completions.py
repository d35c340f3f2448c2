"""Shows recorded completions among the records of their conversation. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from agentserver.completion import CompletionContent, OfferedTool, PromptMessage, RecordedCompletion, ToolCall
from agentserver.trace.redact import EVERY, find_removed, mask_quotations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.trace.redact import Redaction


def summarize(one: RecordedCompletion) -> str:
    """Describe a completion on one line: model, backends, end, tokens, cost and time."""
    failed = [str(each) for each in one.attempts if each.fault is not None]
    place = one.attempts[-1].backend if one.attempts and one.attempts[-1].fault is None else ""
    end = one.fault or ("" if one.finish is None else one.finish.value)
    money = one.usage.money
    parts = [
        f"{one.model}{f' at {place}' if place else ''}{f' ({one.answered_by})' if one.answered_by else ''}",
        f"after {', '.join(failed)}" if failed else "",
        end,
        f"{one.usage.input_tokens:,} tokens in, {one.usage.output_tokens:,} out" if one.usage.tokens else "",
        f"${money:.6f}" if money else "",
        f"{one.took * 1000:.0f} ms",
    ]
    return "  ".join(filter(None, parts))


def describe(one: RecordedCompletion) -> list[tuple[str, str]]:
    """List what a completion contained, as pairs of a role or heading and a text."""
    rows = [("tools", ", ".join(one.tools))] if one.tools else []
    if one.content is None:
        return [
            *rows,
            ("prompt", f"{one.messages} messages, {one.characters:,} characters, sha256 {one.digest}"),
        ]
    for message in one.content.messages:
        if message.content or not message.calls:
            named = f"{message.role} {message.name}".strip()
            rows.append((named, message.content))
        rows += [("assistant calls", f"{call.name} {call.arguments}") for call in message.calls]
    if one.content.text:
        rows.append(("answer", one.content.text))
    rows += [("answer calls", f"{call.name} {call.arguments}") for call in one.content.calls]
    if one.content.output:
        rows.append(("answer value", one.content.output))
    return rows


# Redaction


def redact_completions(
    completions: Sequence[RecordedCompletion], records: Sequence[AuditRecord], redaction: Redaction
) -> tuple[RecordedCompletion, ...]:
    """Redact completions as the records of their conversation are.

    Every text loses quotations of content that is removed from messages. Of JSON text with a covered name, and of each
    text if everything is redacted, only the length and SHA-256 remain.

    Args:
        completions: of the conversation.
        records: of it, unredacted.
        redaction: the rules.
    """
    redacted = [replace(one, content=map_content(one.content, redaction.secrets)) for one in completions]
    if EVERY in redaction.fields:
        return tuple(replace(one, content=summarize_texts(one.content)) for one in redacted)
    if not redaction.fields:
        return tuple(redacted)
    removed = find_removed(records, redaction)
    redacted = [replace(one, content=_summarize_cover_fields(one.content, redaction)) for one in redacted]
    texts = {text for one in redacted if one.content is not None for text in _collect_texts(one.content)}
    mask = mask_quotations(texts, removed)
    return tuple(replace(one, content=map_content(one.content, mask)) for one in redacted)


def drop_content(completions: Iterable[RecordedCompletion]) -> tuple[RecordedCompletion, ...]:
    """Remove all texts, as a recording of metadata has none."""
    return tuple(replace(one, content=None) for one in completions)


def _summarize_text(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return f"[redacted: {len(text)} characters, sha256 {sha256(data).hexdigest()}]" if text else ""


def summarize_texts(content: CompletionContent | None) -> CompletionContent | None:
    """Replace every text by its length and SHA-256; names of offered tools remain."""
    found = map_content(content, _summarize_text)
    if found is None or content is None:
        return None
    offered = {one.name for one in content.tools}
    tools = tuple(
        replace(one, name=known.name) for one, known in zip(found.tools, content.tools, strict=True)
    )
    calls = tuple(
        replace(one, name=known.name if known.name in offered else one.name)
        for one, known in zip(found.calls, content.calls, strict=True)
    )
    return replace(found, tools=tools, calls=calls)


_KEY: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
"""A name in JSON text."""


def _summarize_cover_fields(
    content: CompletionContent | None, redaction: Redaction
) -> CompletionContent | None:
    """Summarise the texts that have a covered name as JSON, also if they are no valid JSON."""

    def cover(text: str) -> str:
        names = _KEY.findall(text)
        return _summarize_text(text) if any("\\" in one or redaction.covers(one) for one in names) else text

    return map_content(content, cover)


def _collect_texts(content: CompletionContent) -> list[str]:
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    map_content(content, note)
    return found


def map_content(content: CompletionContent | None, change: Callable[[str], str]) -> CompletionContent | None:
    """Apply a function to every text."""
    if content is None:
        return None

    def calls(originals: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(change(one.id), change(one.name), change(one.arguments)) for one in originals)

    return CompletionContent(
        tuple(
            PromptMessage(one.role, change(one.content), calls(one.calls), change(one.id), change(one.name))
            for one in content.messages
        ),
        tuple(
            OfferedTool(change(one.name), change(one.description), change(one.schema))
            for one in content.tools
        ),
        change(content.text),
        calls(content.calls),
        change(content.output),
    )
