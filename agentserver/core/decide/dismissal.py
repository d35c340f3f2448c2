"""Excerpts of refused messages from outside: a refused message cannot fill the journal."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.characters.printing import redact_and_truncate
from agentserver.core.decide.admission import Admission
from agentserver.core.messages import Excerpt
from agentserver.core.records.causes import DETAIL, redact_detail
from agentserver.core.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.messages import OutsideMessage, RequestKey

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
    left, refusal = make_excerpt(outside.data, redact), judged.refusal
    if isinstance(left, bytes) or refusal is None:
        return outside
    detail, to = redact_detail(refusal.detail, redact), redact_and_truncate(refusal.to, DETAIL, redact)
    short = Refusal(refusal.code, detail, to, refusal.corrections, refusal.root)
    remarks = [one._replace(detail=redact_detail(one.detail, redact) or one.detail) for one in judged.remarks]
    return DismissedMessage(
        left, outside.request, outside.to, Admission((), short, tuple(remarks)), outside.key
    )
