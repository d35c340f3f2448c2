"""Ledger of the external effects of a conversation."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_EFFECTS: Final = 10_000
"""Effects that the ledger of one conversation holds."""


class EffectState(StrEnum):
    """States of an effect in the ledger."""

    CLAIMED = "claimed"  # its invocation runs, or ran when the process ended
    DONE = "done"  # its answer is recorded
    UNKNOWN = "unknown"  # its invocation ended without an answer


class LedgerEffect(NamedTuple):
    """External effect.

    Args:
        id: opaque; its part after the point is the conversation.
        key: as the listener named it.
        listener: that does the work.
        thread: of the claim.
        delivery: whose invocation claimed it.
        attempt: of that delivery.
        token: epoch of the claim on the conversation.
        passing: whether the answer is dropped with the commit of its invocation.
        at: time of the claim, in seconds since the epoch.
        state: claimed, done or unknown.
        answer: as JSON, if done.
        label: provenance of the answer: ``untrusted`` or ``trusted``; empty without an answer.
        by: the operator who settled it; else empty.
    """

    id: str
    key: str
    listener: str
    thread: str
    delivery: str
    attempt: int
    token: int
    passing: bool
    at: float
    state: EffectState
    answer: str = ""
    label: str = ""
    by: str = ""


NO_LEDGER: Final[Mapping[str, LedgerEffect]] = MappingProxyType({})


def make_effect_id(conversation: str, listener: str, key: str) -> str:
    """Return the id of an effect, which names its conversation."""
    hashed = blake2b(digest_size=8)
    for part in (conversation, listener, key):
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return f"{hashed.hexdigest()}.{conversation}"


def find_conversation(effect: str) -> str:
    """Return the conversation that the id of an effect names; empty for another text."""
    return effect.partition(".")[2]
