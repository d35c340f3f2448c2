"""Texts of details for people.

No code parses such a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.core.records.details import (
    ApprovalGiven,
    Charge,
    Corrections,
    Delay,
    EffectChange,
    EndDetail,
    Failure,
    FreeText,
    Ground,
    Grounds,
    GuardNote,
    GuardQuestions,
    HandoffAttempt,
    NoAnswer,
    RedrivenFrom,
    RepairNote,
    Unknown,
)
from agentserver.findings import PHRASES as FINDINGS
from agentserver.findings import DeferredFindings, Findings, FindingsWriter
from agentserver.spending import Amount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.records.details import Detail, NotedDetail

PHRASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "answered": "approved by {by}",
        "answered once": "approved by {by}, once",
        "answered always": "approved by {by}, always",
        "answered deny": "denied: {by}",
        "answered undone": "denied: the answer of {by} could not be carried out",
        "unanswered nobody": "denied: nobody is there to ask",
        "unanswered late": "denied: no answer in time",
        "delay": "it waits until {due}",
        "dead letter": "dead letter {delivery} of conversation {conversation}, by {by}",
        "charge": "{cost}",
        "charge for": "{work}: {cost}",
        "external effect": "{key}: {state} ({id})",
        "external effect by": "{key}: {state}, decided by {by} ({id})",
        "unasked": "it needs an approval: {reason}",
        "fault and fault": "; ",
        "note": "{text}",
        "note notes": "{guard}: {text}",
        "note denies": "the guard {guard} denies it: {text}",
        "note failed": "the guard {guard} failed: {text}",
        "note rest": "the guard {guard} denies the rest of the conversation: {text}",
        "attempt": "{result}",
        "attempt of": "{result} {intent}",
        "attempt refused": "{result}: {reason}",
        "attempt of refused": "{result} {intent}: {reason}",
        **{ground: ground.phrase for ground in Ground},
    }
)
"""The phrases for details except findings; the fields are those of the values."""


def format_second(at: float) -> str:
    """Format a time, in seconds since the epoch, to the second in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True)
class DetailWording:
    """Wording of details.

    Args:
        phrases: one for each key of ``PHRASES``.
        findings: one for each key of ``findings.PHRASES``.
    """

    phrases: Mapping[str, str] = field(default_factory=lambda: PHRASES)
    findings: Mapping[str, str] = field(default_factory=lambda: FINDINGS)

    def describe_lines(self, detail: Detail | None, command: str = "") -> tuple[str, ...]:
        """Describe a detail, line by line; empty for None.

        Args:
            detail: the value.
            command: the command that shows the rest, for the short form of findings; empty for the full form.
        """
        return () if detail is None else LINES[type(detail)](self, detail, command)

    def first(self, detail: NotedDetail | None) -> str:
        """Return the first line, or an empty text."""
        if isinstance(detail, DeferredFindings):
            return FindingsWriter(self.findings).head(detail)
        return next(iter(self.describe_lines(detail)), "")

    def join_lines(self, detail: Detail | None) -> str:
        """Describe a detail as one text."""
        return "\n".join(self.describe_lines(detail))

    def say(self, phrase: str, **about: object) -> tuple[str, ...]:
        """Format one phrase as the only line."""
        return (self.phrases[phrase].format(**about),)


def _describe_note(words: DetailWording, note: GuardNote, _: str) -> tuple[str, ...]:
    first, *rest = note.text.split("\n")
    return (*words.say(_join_words("note", note.effect), guard=note.guard, text=first), *rest)


def _describe_findings(words: DetailWording, findings: Findings, command: str) -> tuple[str, ...]:
    writer = FindingsWriter(words.findings)
    return writer.describe_brief(findings, command) if command else writer.describe_all(findings)


def _describe_questions(words: DetailWording, questions: GuardQuestions, command: str) -> tuple[str, ...]:
    lines = [line for ask in questions.questions for line in words.describe_lines(ask.reason, command)]
    if questions.waits or not lines:
        return tuple(lines)
    return (*words.say("unasked", reason=lines[0]), *lines[1:])


def _describe_handoff(words: DetailWording, attempt: HandoffAttempt, _: str) -> tuple[str, ...]:
    named = not (attempt.intent is None or isinstance(attempt.intent, Unknown))
    phrase = _join_words(_join_words("attempt", "of" if named else ""), "refused" if attempt.reason else "")
    return words.say(phrase, result=attempt.result, intent=attempt.intent, reason=attempt.reason)


def _join_words(phrase: str, suffix: str) -> str:
    return f"{phrase} {suffix}" if suffix else phrase


LINES: Final[Mapping[type, Callable[[DetailWording, Any, str], tuple[str, ...]]]] = MappingProxyType(
    {
        FreeText: lambda _, told, __: tuple(told.text.split("\n")),
        GuardNote: _describe_note,
        Failure: lambda _, told, __: (told.text,),
        Grounds: lambda words, told, _: (words.phrases[told.ground].format(*told.names),),
        Corrections: lambda words, told, _: (words.phrases["fault and fault"].join(told.faults),),
        RepairNote: lambda _, told, __: (told.repair,),
        GuardQuestions: _describe_questions,
        ApprovalGiven: lambda words, told, _: words.say(_join_words("answered", told.answer), by=told.by),
        NoAnswer: lambda words, told, _: words.say(_join_words("unanswered", told.reason)),
        Delay: lambda words, told, _: words.say("delay", due=format_second(told.due_at)),
        EndDetail: lambda _, told, __: (told.reason,),
        RedrivenFrom: lambda words, told, _: words.say("dead letter", **told._asdict()),
        Charge: lambda words, told, _: words.say(
            _join_words("charge", "for" if told.work else ""),
            work=told.work,
            cost=Amount(told.tokens, told.money),
        ),
        EffectChange: lambda words, told, _: words.say(
            _join_words("external effect", "by" if told.by else ""), **told._asdict()
        ),
        Findings: _describe_findings,
        HandoffAttempt: _describe_handoff,
    }
)
"""The lines of each kind."""

WORDING: Final = DetailWording()
"""The server's own wording."""
