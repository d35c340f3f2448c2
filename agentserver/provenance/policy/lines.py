"""Lines of a policy, each with the policy without it, so that a history shows what the line costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.policy.declarations import Policy, SinkRule


class PolicyLine(NamedTuple):
    """Line of a policy about one field or one argument.

    Args:
        text: the line with the keys above it.
        without: the policy without the line.
    """

    text: str
    without: Policy


def list_lines(policy: Policy) -> Iterator[PolicyLine]:
    """List the lines about fields and arguments. Marks in the types of payloads do not count."""
    for at, field in enumerate(policy.fields):
        without = replace(policy, fields=(*policy.fields[:at], *policy.fields[at + 1 :]))
        yield PolicyLine(f"fields: {field.source}: {field.field}: {field.standing}", without)
    for at, sink in enumerate(policy.sinks):
        for number, argument in enumerate(sink.arguments):
            others = (*sink.arguments[:number], *sink.arguments[number + 1 :])
            text = f"sinks: {sink.name}: {argument.name}: {argument.role}"
            yield PolicyLine(text, _replace_sink(policy, at, replace(sink, arguments=others)))


def _replace_sink(policy: Policy, at: int, sink: SinkRule) -> Policy:
    return replace(policy, sinks=(*policy.sinks[:at], sink, *policy.sinks[at + 1 :]))
