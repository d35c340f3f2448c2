"""What the listeners of the desk say to one another.

Owns the payload classes. A tool answers with one class, which holds a ``problem`` when there is no result:
whoever waits for several answers can then count them by one name.
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
    """What a person asks the desk.

    Args:
        text: in plain words; "mail it to me" at the end sends the answer by mail as well.
    """

    text: Annotated[str, MinLen(1), MaxLen(4000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Answer:
    """The desk's answer to a question.

    Args:
        text: the answer.
        sources: the pages that it rests on.
    """

    text: Text
    sources: Annotated[list[Url], MaxLen(50)] = field(default_factory=list)


@xmlify
@dataclass(frozen=True, slots=True)
class Research:
    """A question for the researcher.

    Args:
        question: what is to be found out.
    """

    question: Annotated[str, MinLen(1), MaxLen(4000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Report:
    """What the researcher found out.

    Args:
        text: the findings.
        sources: the pages that they rest on.
        contact: whom the pages name for questions; absent when they name nobody.
    """

    text: Text
    sources: Annotated[list[Url], MaxLen(50)] = field(default_factory=list)
    contact: Address | None = None


@xmlify(example={"expression": "1240 * 17.5 / 100"})
@dataclass(frozen=True, slots=True)
class Calculate:
    """Arithmetic to be done.

    Args:
        expression: numbers, + - * / // % **, parentheses, and ``ans`` for the result before this one.
    """

    expression: Annotated[str, MinLen(1), MaxLen(200)]


@xmlify
@dataclass(frozen=True, slots=True)
class Result:
    """The value of an expression.

    Args:
        expression: as it was asked for.
        value: its value, to 28 digits; absent when there is none.
        problem: why there is none.
    """

    expression: Annotated[str, MinLen(1), MaxLen(200)]
    value: Decimal | None = None
    problem: Annotated[str | None, MaxLen(200)] = None

    def __str__(self) -> str:
        return f"{self.expression} = {self.problem if self.value is None else format(self.value, 'f')}"


@xmlify(example={"url": "https://example.org/"})
@dataclass(frozen=True, slots=True)
class Fetch:
    """A page to be fetched.

    Args:
        url: of the page; only hosts that the fetcher's settings name are asked.
    """

    url: Url


class PageProblem(StrEnum):
    """Why there is no page."""

    FORBIDDEN = "forbidden"
    MISSING = "missing"
    REDIRECTS = "too many redirects"
    SIZE = "too large"
    TIME = "too slow"
    TYPE = "not a page of text"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a page.

    Args:
        label: what it is called.
        url: where it leads.
    """

    label: Annotated[str, MaxLen(200)]
    url: Url


@xmlify
@dataclass(frozen=True, slots=True)
class Page:
    """A page as text. All but ``url`` and ``problem`` are the words of whoever wrote the page, and marked so.

    Args:
        url: as it was asked for.
        title: of the page.
        text: what a reader sees.
        links: where it leads.
        problem: why there is no page.
    """

    url: Url
    title: Annotated[str, MaxLen(200)] = ""
    text: Annotated[str, MaxLen(10_000)] = ""
    links: Annotated[list[Link], MaxLen(40)] = field(default_factory=list)
    problem: Annotated[PageProblem | None, Standing.RECORD] = None


@xmlify(example={"source": "https://example.org/"})
@dataclass(frozen=True, slots=True)
class Summarise:
    """Text to be summarised.

    Args:
        source: where it was found.
        topic: what the summary is to be about.
        text: the text.
    """

    source: Url
    topic: Annotated[str, MaxLen(200)]
    text: Annotated[str, MaxLen(10_000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Summary:
    """The sentences of a text that say the most.

    Args:
        source: where the text was found.
        text: the sentences.
    """

    source: Url
    text: Annotated[str, MaxLen(2000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to be sent.

    Args:
        to: the one recipient; what decides where the mail goes.
        subject: one line.
        body: plain text.
    """

    to: Annotated[Address, Role.DESTINATION]
    subject: Annotated[Line, Role.PAYLOAD]
    body: Annotated[Text, Role.PAYLOAD]


@xmlify
@dataclass(frozen=True, slots=True)
class Mailed:
    """A mail has been written.

    Args:
        to: its recipient.
        file: where it lies.
    """

    to: Address
    file: Annotated[str, MaxLen(1000)]


@xmlify
@dataclass(frozen=True, slots=True)
class Note:
    """Something to be noted by everyone who keeps notes.

    Args:
        text: one line.
    """

    text: Annotated[str, MinLen(1), MaxLen(500)]


@xmlify
@dataclass(frozen=True, slots=True)
class Noted:
    """The notes of this conversation so far.

    Args:
        notes: in order.
    """

    notes: Annotated[list[str], MaxLen(1000)] = field(default_factory=list)


@xmlify
@dataclass(frozen=True, slots=True)
class Counted:
    """How much has been noted in this conversation.

    Args:
        notes: their number.
        words: in all of them.
    """

    notes: int = 0
    words: int = 0
