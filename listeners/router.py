"""The router: takes a question, picks a listener to answer it, and mails the answer on request.

Only the router may reach the outbox. It mails to an address in the person's question, to one in its settings, or to
"the contact" in the researcher's report, which comes from a page. The router does not check that address: the server
tracks its origin and decides whether mail may go there.
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
from listeners.payloads import (
    ADDRESS,
    Answer,
    Calculate,
    Mail,
    MailReceipt,
    Question,
    Report,
    Research,
    Result,
)

_MAIL = re.compile(
    rf"[\s,;.]*(?:and |please )*mail (?:it|this|that|the answer) to (me|the contact|{ADDRESS})[\s.!]*",
    re.IGNORECASE,
)
CONTACT = "the contact"
"""Phrase for the contact that the pages name."""

_SUM = re.compile(r"[\d\s.+*/()%-]+")


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Facts about the person who uses the desk.

    Args:
        owner: the mail address of the person, for "mail it to me".
    """

    owner: Annotated[str, MaxLen(254)]


@xmlify
@dataclass(frozen=True, slots=True)
class Errand:
    """State of the router: the current question and the last answer.

    Args:
        question: as asked.
        recipient: of the mail; empty for no mail.
        answer: the last answer.
        contact: the address that its pages name; empty without one.
    """

    question: str = ""
    recipient: str = ""
    answer: Answer | None = None
    contact: str = ""


async def route(
    payload: Question | Result | Report | MailReceipt | SystemError, metadata: HandlerMetadata
) -> HandlerResponse:
    """Handle a question, or an answer of a listener or the system about it."""
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
        case MailReceipt():
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
    """Mail the answer if requested, or return it."""
    errand = replace(errand, answer=answer)
    to = errand.contact if errand.recipient == CONTACT else errand.recipient
    if not to:
        return errand, HandlerResponse.respond(answer)
    subject = " ".join(errand.question.split())[:120] or "Your question"
    body = "\n".join([answer.text, "", *answer.sources])
    return errand, HandlerResponse(Mail(to, f"Re: {subject}", body), "outbox")


def _recipient(text: str) -> str:
    """Find the recipient that the question names; empty without one."""
    settings: RouterSettings = invocation().settings
    match = _MAIL.search(text)
    if match is None:
        return ""
    named = {"me": settings.owner, CONTACT: CONTACT}
    return named.get(match[1].lower(), match[1])
