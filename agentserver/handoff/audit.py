"""The record of handoffs: every attempt, by lengths and hashes, in a chain.

Contents never
enter a record; of a name that was not validated it has length and hash, since the name itself may be the
attack.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentserver.foreign_json.reading import JsonLimits
from agentserver.foreign_json.reading import parse_json as read_json
from agentserver.handoff.judgement import ApprovedRequest, Facts, RejectedRequest, Verdict
from agentserver.handoff.requests import RequestRefusal, digest

if TYPE_CHECKING:
    from collections.abc import Iterable

GENESIS: Final = "0" * 64
"""The name that the first record has for its predecessor's hash."""
LONGEST: Final = 200
"""Characters of what a record of a break says."""
NAMES: Final = 32
"""Unvalidated names that a record keeps by length and hash; more are counted in."""


@dataclass(frozen=True, slots=True)
class HandoffEntry:
    """One attempt, by the keys of the record.

    Args:
        members: key and JSON value, in the order in which they are written.
    """

    members: tuple[tuple[str, Any], ...]


class AuditSink(Protocol):
    """The destination of records. One that fails reports it and lets the handoff continue."""

    def append(self, record: HandoffEntry) -> None:
        """Keep a record. Raises nothing."""


KEYS: Final = (
    *("timestamp", "source", "target", "intent", "result", "reason", "params_keys", "raw_len"),
    *("raw_event_len", "sanitized_event_len", "raw_sha256", "event_sha256", "note_len", "note_sha256"),
)
"""The keys of a record, in the order in which they are written."""


def record(verdict: Verdict, at: str) -> HandoffEntry:
    """Return the record of a verdict; ``at`` is the time, ISO 8601 with zone."""
    return HandoffEntry(tuple(zip(KEYS, list_values(verdict, at), strict=True)))


def list_values(verdict: Verdict, at: str) -> tuple[Any, ...]:
    """Return the values of a verdict's record, in the order of ``KEYS``."""
    source, request, target_known, intent_known, _, sanitized = facts = verdict.facts
    target, intent, _, event, _, raw_len, raw_sha256, note = request
    approved = isinstance(verdict, ApprovedRequest)
    return (
        at,
        source,
        target if target_known else _unknown(target),
        intent if intent_known else _unknown(intent),
        "approve" if approved else "reject",
        None if isinstance(verdict, ApprovedRequest) else str(verdict.reason),
        _collect_keys(facts),
        raw_len,
        len(event) + len(note),
        sanitized,
        raw_sha256,
        digest(event) if event else None,
        len(note),
        digest(note) if note else None,
    )


def reject_undelivered(
    approved: ApprovedRequest, reason: RequestRefusal = RequestRefusal.DELIVERY_FAILED
) -> RejectedRequest:
    """Return the verdict on a handoff that was approved and then could not be handed to its target."""
    return RejectedRequest(reason, approved.facts)


def _unknown(text: str | None) -> Any:
    """Return a name that was not validated."""
    return None if text is None else {"len": len(text), "sha256": digest(text)}


def _collect_keys(facts: Facts) -> list[Any]:
    names = sorted([name for name, _ in facts.request.params])
    if facts.params_known:
        return names
    listed = [_unknown(name) for name in names[:NAMES]]
    return listed if len(names) <= NAMES else [*listed, {"more": len(names) - NAMES}]


@dataclass(frozen=True, slots=True)
class Seal:
    """The end of a chain: how many records it has, and the hash of the last."""

    count: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class Flaw:
    """The place at which a chain is broken: the number of the line, from 1, and the reason."""

    line: int
    detail: str


def seal_record(record: HandoffEntry, after: Seal) -> tuple[str, Seal]:
    """Return the line of a record in a chain, without a newline, and the chain's new end.

    The hash covers the line without its last member, the hash.
    """
    members = (*record.members, ("seq", after.count + 1), ("previous", after.hash))
    text = json.dumps(dict(members), separators=(",", ":"))
    own = sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"hash":"{own}"}}', Seal(after.count + 1, own)


_LINE = re.compile(r'(\{.*),"hash":"([0-9a-f]{64})"\}')


def verify(lines: Iterable[str], end: Seal | None = None) -> Seal | Flaw:
    """Follow a chain from its start.

    Args:
        lines: the records in order.
        end: where the chain was known to reach; without it, records cut off at the end are not missed.

    Returns:
        the end of the chain, or the first place where it is broken.
    """
    at = Seal()
    known = end is None or end.count == 0
    for number, line in enumerate(lines, 1):
        found = _next_seal(line, at)
        if isinstance(found, str):
            return _describe_request(line) or Flaw(number, found)
        at = found
        known = known or at == end
    if not known:
        assert end is not None
        short = at.count < end.count
        return Flaw(
            at.count + 1 if short else end.count,
            _cut(end.count) if short else "is not the record that was kept",
        )
    return at


def _describe_request(line: str) -> Flaw | None:
    """Return the flaw that a record of a break names."""
    members = _build_members(line) or {}
    if members.get("result") != BREAK or type(members.get("line")) is not int:
        return None
    detail = str(members.get("detail"))
    return Flaw(members["line"], detail if detail.isprintable() and len(detail) <= LONGEST else "is broken")


def _cut(count: int) -> str:
    return f"is missing: the chain had {count} records"


def _next_seal(line: str, after: Seal) -> Seal | str:
    members = _build_members(line)
    found = _LINE.fullmatch(line)
    if members is None or found is None:
        return "is no record"
    if members.get("previous") != after.hash or members.get("seq") != after.count + 1:
        return "does not follow the record before it"
    text, claimed = found.groups()
    return Seal(after.count + 1, claimed) if claimed == digest(f"{text}}}") else "was altered"


def _build_members(line: str) -> dict[str, Any] | None:
    members = read_json(line, JsonLimits())
    return members if isinstance(members, dict) else None


def parse_seal(line: str) -> Seal | None:
    """Return the end of a chain whose last line this is; None when it is no record, or not as it was written."""
    members, found = _build_members(line), _LINE.fullmatch(line)
    if members is None or found is None or type(members.get("seq")) is not int:
        return None
    text, claimed = found.groups()
    return Seal(members["seq"], claimed) if claimed == digest(f"{text}}}") else None


def parse_previous_seal(line: str) -> Seal | None:
    """Return the end of the chain before this line, taken at its word; None when it is no record."""
    members = _build_members(line)
    if members is None or type(members.get("seq")) is not int or not isinstance(members.get("previous"), str):
        return None
    return Seal(members["seq"] - 1, members["previous"])


BREAK: Final = "break"
"""The ``result`` of a record that says that the file was not as it had been left."""


def record_break(flaw: Flaw, at: str) -> HandoffEntry:
    """Return the record of a break, behind which the chain continues from its known end."""
    return HandoffEntry((("timestamp", at), ("result", BREAK), ("line", flaw.line), ("detail", flaw.detail)))


def follow_chain(lines: Iterable[str]) -> tuple[Seal, Flaw | None]:
    """Return the end of a chain, and the first place where it is broken and no record behind it says so."""
    at, flaw = Seal(), None
    for number, line in enumerate(lines, 1):
        found = _next_seal(line, at)
        if flaw is None and isinstance(found, Seal):
            at = found
        elif (_build_members(line) or {}).get("result") == BREAK and (
            resumed := parse_seal(line)
        ) is not None:
            at, flaw = resumed, None
        elif flaw is None:
            flaw = Flaw(number, str(found))
    return at, flaw
