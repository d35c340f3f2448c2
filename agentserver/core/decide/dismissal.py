"""Excerpts of refused messages from outside, and redaction of the causes of decisions, before anything is recorded."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.characters.printing import redact_and_truncate
from agentserver.core.decide.admission import Admission
from agentserver.core.messages import Excerpt, HandlerFailure
from agentserver.core.records.details import map_texts, read_detail
from agentserver.core.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import AbandonedDelivery, FinishedInvocation, OutsideMessage, RequestKey
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
    returned = result.result
    if not isinstance(returned, Refusal):
        return one
    detail, to = redact_detail(returned.detail, redact), redact_and_truncate(returned.to, DETAIL, redact)
    return one._replace(result=result._replace(result=replace(returned, detail=detail, to=to)))


def redact_given_up(one: AbandonedDelivery, redact: Callable[[str], str]) -> AbandonedDelivery:
    """Redact a delivery on which no decision was possible."""
    return one._replace(detail=redact_detail(one.detail, redact) or one.detail)


KEPT: Final = 4096
"""Bytes of a refused message, and characters of a refused payload, that are kept."""


class DismissedMessage(NamedTuple):
    """Long outside message that was read and refused.

    Args:
        data: an excerpt of its bytes.
        judged: the refusal and the remarks.

    The others are as of ``OutsideMessage``.
    """

    data: Excerpt
    request: str
    to: str | None
    judged: Admission
    key: RequestKey | None = None


def make_excerpt(data: bytes, redact: Callable[[str], str]) -> bytes | Excerpt:
    """Shorten a long refused message to its beginning, without cutting a secret."""
    if len(data) <= KEPT:
        return data
    text = redact(
        data[: 2 * KEPT].decode(errors="surrogateescape")
    )  # twice the length: a secret may end after the excerpt
    beginning = text.encode(errors="surrogateescape")[:KEPT]
    return Excerpt(beginning, len(data), sha256(data).hexdigest())


def dismiss(
    outside: OutsideMessage, judged: Admission, redact: Callable[[str], str]
) -> OutsideMessage | DismissedMessage:
    """Shorten a refused message; a short one stays whole, so that it can be judged again."""
    excerpt, refusal = make_excerpt(outside.data, redact), judged.refusal
    if isinstance(excerpt, bytes) or refusal is None:
        return outside
    detail, to = redact_detail(refusal.detail, redact), redact_and_truncate(refusal.to, DETAIL, redact)
    short = Refusal(refusal.code, detail, to, refusal.corrections, refusal.root)
    noted = [(one, read_detail(one.detail)) for one in judged.remarks]
    remarks = [one._replace(detail=redact_detail(why, redact) or why) for one, why in noted]
    return DismissedMessage(
        excerpt, outside.request, outside.to, Admission((), short, tuple(remarks)), outside.key
    )
