"""Redaction of the causes of decisions, before anything is decided or recorded.

Redacting twice changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentserver.characters.printing import redact_and_truncate
from agentserver.core.messages import HandlerFailure
from agentserver.core.records.details import map_texts
from agentserver.core.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import FinishedInvocation, GivenUp
    from agentserver.core.records.details import Detail

DETAIL = 2000
"""Characters of a text in a detail that are kept."""


def redact_detail(detail: Detail | None, redact: Callable[[str], str]) -> Detail | None:
    """Redact and shorten the texts of a detail."""
    return (
        None if detail is None else map_texts(detail, lambda text: redact_and_truncate(text, DETAIL, redact))
    )


def redact_invocation(one: FinishedInvocation, redact: Callable[[str], str]) -> FinishedInvocation:
    """Redact a finished invocation."""
    result = one.result
    if isinstance(result, HandlerFailure):
        return one._replace(result=result._replace(detail=redact_detail(result.detail, redact)))
    said = result.said
    if not isinstance(said, Refusal):
        return one
    detail, to = redact_detail(said.detail, redact), redact_and_truncate(said.to, DETAIL, redact)
    return one._replace(result=result._replace(said=replace(said, detail=detail, to=to)))


def redact_given_up(one: GivenUp, redact: Callable[[str], str]) -> GivenUp:
    """Redact a delivery on which no decision was possible."""
    return one._replace(detail=redact_detail(one.detail, redact) or one.detail)
