"""The payload classes of the research desk.

Each tool answers with one class, whose ``problem`` is set when there is no result, so that a caller that waits for
several answers can count them by one name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, TypeAlias

from annotated_types import MaxLen, MinLen

from agentserver import Pattern, xmlify
from agentserver.provenance import Role, Standing

ADDRESS = r"[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)+"
URL = r"https?://[!-~]+"

Address: TypeAlias = Annotated[str, MaxLen(254), Pattern(ADDRESS)]
Url: TypeAlias = Annotated[str, MaxLen(2000), Pattern(URL)]
Line: TypeAlias = Annotated[str, MaxLen(200), Pattern(r"\P{C}*")]
Text: TypeAlias = Annotated[str, MinLen(1), MaxLen(20_000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Question:
    """Question of a person to the desk.

    Args:
        text: in plain words; "mail it to me" at the end sends the answer by mail as well.
    """

    text: Annotated[str, MinLen(1), MaxLen(4000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the desk.

    Args:
        text: the answer.
        sources: URLs of the pages that support it.
    """

    text: Text
    sources: Annotated[list[Url], MaxLen(50)] = field(default_factory=list)


@xmlify
@dataclass(frozen=True, slots=True)
class Research:
    """Question for the researcher.

    Args:
        question: in plain words.
    """

    question: Annotated[str, MinLen(1), MaxLen(4000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Report:
    """Findings of the researcher.

    Args:
        text: the findings.
        sources: URLs of the pages that support them.
        contact: the mail address for questions on those pages; absent without one.
    """

    text: Text
    sources: Annotated[list[Url], MaxLen(50)] = field(default_factory=list)
    contact: Address | None = None


@xmlify(example={"expression": "1240 * 17.5 / 100"})
@dataclass(frozen=True, slots=True)
class Calculate:
    """Arithmetic expression to evaluate.

    Args:
        expression: numbers, + - * / // % **, parentheses, and ``ans`` for the previous result.
    """

    expression: Annotated[str, MinLen(1), MaxLen(200)]


@xmlify
@dataclass(frozen=True, slots=True)
class Result:
    """Value of an expression, or the reason why it has no value.

    Args:
        expression: as requested.
        value: to 28 digits; absent for an expression without one.
        problem: the reason why there is no value.
    """

    expression: Annotated[str, MinLen(1), MaxLen(200)]
    value: Decimal | None = None
    problem: Annotated[str | None, MaxLen(200)] = None

    def __str__(self) -> str:
        return f"{self.expression} = {self.problem if self.value is None else format(self.value, 'f')}"


@xmlify(example={"url": "https://example.org/"})
@dataclass(frozen=True, slots=True)
class Fetch:
    """Request to fetch a page.

    Args:
        url: of the page; its host must be in the settings of the fetcher.
    """

    url: Url


class PageProblem(StrEnum):
    """Reason why a page could not be fetched."""

    FORBIDDEN = "forbidden"
    MISSING = "missing"
    REDIRECTS = "too many redirects"
    SIZE = "too large"
    TIME = "too slow"
    TYPE = "not a page of text"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Link:
    """Link on a page.

    Args:
        label: its text.
        url: its target.
    """

    label: Annotated[str, MaxLen(200)]
    url: Url


@xmlify
@dataclass(frozen=True, slots=True)
class Page:
    """Page as text. All fields but ``url`` and ``problem`` are marked as text of the page's author.

    Args:
        url: as requested.
        title: of the page.
        text: that a reader sees.
        links: on the page.
        problem: the reason why there is no page.
    """

    url: Url
    title: Annotated[str, MaxLen(200)] = ""
    text: Annotated[str, MaxLen(10_000)] = ""
    links: Annotated[list[Link], MaxLen(40)] = field(default_factory=list)
    problem: Annotated[PageProblem | None, Standing.RECORD] = None


@xmlify(example={"source": "https://example.org/"})
@dataclass(frozen=True, slots=True)
class Summarise:
    """Request to summarise a text.

    Args:
        source: URL of the text.
        topic: of the summary.
        text: the text.
    """

    source: Url
    topic: Annotated[str, MaxLen(200)]
    text: Annotated[str, MaxLen(10_000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Summary:
    """Most informative sentences of a text.

    Args:
        source: URL of the text.
        text: the sentences.
    """

    source: Url
    text: Annotated[str, MaxLen(2000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Mail:
    """Mail to send.

    Args:
        to: the only recipient.
        subject: one line.
        body: plain text.
    """

    to: Annotated[Address, Role.DESTINATION]
    subject: Annotated[Line, Role.PAYLOAD]
    body: Annotated[Text, Role.PAYLOAD]


@xmlify
@dataclass(frozen=True, slots=True)
class MailReceipt:
    """Receipt for a written mail.

    Args:
        to: its recipient.
        file: path of the mail.
    """

    to: Address
    file: Annotated[str, MaxLen(1000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Note:
    """Note for every listener that stores or counts notes.

    Args:
        text: one line.
    """

    text: Annotated[str, MinLen(1), MaxLen(500)]


@xmlify
@dataclass(frozen=True, slots=True)
class NoteList:
    """The notes of this conversation so far.

    Args:
        notes: in order.
    """

    notes: Annotated[list[str], MaxLen(1000)] = field(default_factory=list)


@xmlify
@dataclass(frozen=True, slots=True)
class NoteCount:
    """Size of the notes of this conversation.

    Args:
        notes: number of notes.
        words: number of words in them.
    """

    notes: int = 0
    words: int = 0
