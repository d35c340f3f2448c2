"""The router: takes what a person asks, picks the desk, and has the answer mailed when that was asked.

Owns the errand. It alone may reach the outbox, and it writes to an address from the person's own words, from its
settings, or to "the contact" that the researcher brings back. That one comes from pages. The router does not judge
it: where an address comes from, and whether it may be written to, is for the server to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import MaxLen

from agentserver import (
    HandlerMetadata,
    HandlerResponse,
    SystemError,
    invocation,
    xmlify,
)
from listeners.payloads import ADDRESS, Answer, Calculate, Mail, Mailed, Question, Report, Research, Result

_MAIL = re.compile(
    rf"[\s,;.]*(?:and |please )*mail (?:it|this|that|the answer) to (me|the contact|{ADDRESS})[\s.!]*",
    re.IGNORECASE,
)
CONTACT = "the contact"
"""How a person means whomever the pages name."""

_SUM = re.compile(r"[\d\s.+*/()%-]+")


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """What the router knows about the person.

    Args:
        owner: the address that "me" stands for.
    """

    owner: Annotated[str, MaxLen(254)]


@xmlify
@dataclass(frozen=True, slots=True)
class Errand:
    """What the router is at, and what it answered last.

    Args:
        question: as the desk was asked.
        recipient: whom the answer is to be mailed to; empty for nobody.
        answer: the last answer.
        contact: whom the pages behind it name; empty for nobody.
    """

    question: str = ""
    recipient: str = ""
    answer: Answer | None = None
    contact: str = ""


async def route(
    payload: Question | Result | Report | Mailed | SystemError, metadata: HandlerMetadata
) -> HandlerResponse:
    """Take a question, or what a desk, the outbox or the system says about it."""
    storage = invocation().storage
    errand = storage.get(Errand) or Errand()
    match payload:
        case Question():
            errand, response = take(payload, errand)
        case Result():
            errand, response = finish(Answer(str(payload)), errand)
        case Report():
            known = replace(errand, contact=payload.contact or "")
            errand, response = finish(Answer(payload.text, payload.sources), known)
        case Mailed():
            answer = errand.answer or Answer("It is done.")
            text = f"{answer.text}\n(Mailed to {payload.to}: {payload.file})"
            response = HandlerResponse.respond(replace(answer, text=text))
        case SystemError():
            response = HandlerResponse.respond(Answer(f"That did not work: {payload.message}"))
    storage.set(errand)
    return response


def take(question: Question, before: Errand) -> tuple[Errand, HandlerResponse]:
    """Start an errand."""
    recipient = _recipient(question.text)
    text = _MAIL.sub("", question.text).strip()
    if not text and before.answer is not None:
        return finish(before.answer, replace(before, recipient=recipient))
    if not text:
        return before, HandlerResponse.respond(Answer("There is nothing to mail yet."))
    errand = replace(before, question=text, recipient=recipient, contact="")
    if _SUM.fullmatch(text):
        return errand, HandlerResponse(Calculate(text), "calculator")
    return errand, HandlerResponse(Research(text), "researcher")


def finish(answer: Answer, errand: Errand) -> tuple[Errand, HandlerResponse]:
    """Mail the answer if that was asked for, else give it."""
    errand = replace(errand, answer=answer)
    to = errand.contact if errand.recipient == CONTACT else errand.recipient
    if not to:
        return errand, HandlerResponse.respond(answer)
    subject = " ".join(errand.question.split())[:120] or "Your question"
    body = "\n".join([answer.text, "", *answer.sources])
    return errand, HandlerResponse(Mail(to, f"Re: {subject}", body), "outbox")


def _recipient(text: str) -> str:
    """Whom the person wants the answer mailed to."""
    settings: RouterSettings = invocation().settings
    match = _MAIL.search(text)
    if match is None:
        return ""
    named = {"me": settings.owner, CONTACT: CONTACT}
    return named.get(match[1].lower(), match[1])
