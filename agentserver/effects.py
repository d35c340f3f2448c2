"""External effects that are done once: payments, orders, mails.

.. code-block:: python

    effect = await invocation().effect("charge-42")
    if effect.done:
        return Paid(effect.answer)
    receipt = await bank.charge(amount, idempotency_key=effect.id, fence=effect.token)
    await effect.finish(receipt)

The claim, and later the answer, are committed to the ledger of the conversation. A claim without an answer after a
crash or a failure has an unknown outcome: a reconcile hook or an operator decides, and the work is not done again
without such a decision.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json

__all__ = ["NOT_DONE", "Effect", "EffectLedger", "EffectUnknown", "LedgerEntry", "NotDone"]

LONGEST_ANSWER: Final = 65_536
"""Bytes of an answer, as JSON."""

LONGEST_KEY: Final = 256
"""Characters of a key."""

_LIMITS: Final = JsonLimits(bytes=LONGEST_ANSWER, values=LONGEST_ANSWER)


class EffectUnknown(RuntimeError):  # noqa: N818 - the state of the effect
    """Effect that was begun, and whose outcome is not recorded. It is not done again.

    Args:
        id: of the effect, for ``agentserver effects settle``.
        key: of the effect.
    """

    def __init__(self, id: str, key: str) -> None:  # noqa: A002 - the name of the attribute
        super().__init__(f"the outcome of {key!r} is unknown: decide with agentserver effects settle {id}")
        self.id, self.key = id, key


class DryForkError(RuntimeError):
    """Refusal to do an effect in a dry fork. ``key`` is that of the effect."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the effect {key!r} cannot be claimed: the conversation is a dry fork")
        self.key = key


class NotDone(Exception):  # noqa: N818 - the state of the effect
    """Report of a function that its effect certainly did not happen. Its claim is withdrawn."""


class _NotDoneVerdict:
    """Verdict of a reconcile hook that the effect did not happen."""

    def __repr__(self) -> str:
        return "NOT_DONE"


NOT_DONE: Final = _NotDoneVerdict()
"""Returned by a reconcile hook: the effect did not happen, and is done now."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """State of an effect after a claim.

    Args:
        id: opaque, the same for all claims of this key: an idempotency key for the service that does the work.
        state: ``claimed`` by this call, ``done``, or ``unknown``.
        answer: as JSON, if done.
        token: epoch of the claim on the conversation.
    """

    id: str
    state: str
    answer: str = ""
    token: int = 0


class EffectLedger(Protocol):
    """Ledger of the running invocation. Each method is committed when it returns."""

    async def claim(self, key: str, *, passing: bool = False) -> LedgerEntry:
        """Claim an effect, or return its recorded outcome. A claim that is there already becomes unknown.

        Args:
            key: of the effect, unique for the listener in the conversation.
            passing: drop the answer when the invocation is committed, which records it elsewhere.

        Raises RuntimeError if it cannot be recorded now.
        """

    async def conclude(self, id: str, answer: str | None, *, trusted: bool = False) -> None:  # noqa: A002
        """Record the answer of an effect, as JSON; None withdraws the claim. Raises RuntimeError as ``claim`` does."""


@dataclass(slots=True)
class Effect:
    """External effect of a handler.

    Args:
        ledger: of the invocation.
        key: as the handler named it.
        id: the same for all claims of this key: an idempotency key for the service that does the work.
        token: fencing token: the epoch of the conversation's claim. A service that refuses smaller ones is safe from a
            process that has lost the conversation.
        done: whether an earlier attempt did the work.
        answer: of that attempt.
        written: the answer as JSON, once the work is done.
    """

    ledger: EffectLedger
    key: str
    id: str
    token: int
    done: bool = False
    answer: Any = None
    written: str = ""

    async def finish(self, answer: Any = None, *, trusted: bool = False) -> None:
        """Record that the work is done, with its answer.

        Args:
            answer: a value that JSON can hold.
            trusted: whether the answer is this organism's own. The ledger labels other answers as untrusted text.

        Raises TypeError or ValueError for another answer, RuntimeError if it cannot be recorded now: the outcome is
        then unknown.
        """
        await self.finish_written(dump_answer(answer), trusted=trusted)
        self.answer = answer

    async def finish_written(self, answer: str, *, trusted: bool = False) -> None:
        """Record that the work is done, with its answer as JSON. Raises ValueError and RuntimeError."""
        _check_length(answer)
        await self.ledger.conclude(self.id, answer, trusted=trusted)
        self.done, self.written = True, answer

    async def withdraw(self) -> None:
        """Record that the work certainly did not happen."""
        await self.ledger.conclude(self.id, None)


Reconcile: TypeAlias = Callable[[Effect], Any]
"""Hook that asks the service what became of an effect.

It returns the answer, or an awaitable of it, or NOT_DONE. If it raises, the outcome stays unknown and the invocation
fails as for any exception: a retry asks again.
"""


def dump_answer(answer: Any) -> str:
    """Encode an answer. Raises TypeError and ValueError."""
    text = json.dumps(answer, ensure_ascii=False)
    _check_length(text)
    return text


def _check_length(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_ANSWER:
        raise ValueError(f"the answer of an effect takes at most {LONGEST_ANSWER} bytes")


def load_answer(text: str) -> Any:
    """Decode the output of ``dump_answer``. Raises ValueError."""
    value = parse_json(text, _LIMITS)
    if isinstance(value, RefusedJson):
        raise ValueError(f"the answer of an effect is damaged: {value}")  # noqa: TRY004 - of the stored text
    return value


async def open_effect(
    ledger: EffectLedger | None, key: str, reconcile: Reconcile | None, *, passing: bool = False
) -> Effect:
    """Claim an effect, and reconcile an unknown one. See ``Invocation.effect``."""
    if ledger is None:
        raise RuntimeError("no server records effects here")
    if not 0 < len(key) <= LONGEST_KEY:
        raise ValueError(f"the key of an effect is a text of 1 to {LONGEST_KEY} characters")
    entry = await ledger.claim(key, passing=passing)
    if entry.state != "unknown":
        return _make_effect(ledger, key, entry)
    effect = _make_effect(ledger, key, entry)
    if reconcile is None:
        raise EffectUnknown(entry.id, key)
    verdict = reconcile(effect)
    if isinstance(verdict, Awaitable):
        verdict = await verdict
    if verdict is NOT_DONE:
        await ledger.conclude(entry.id, None)
        return _make_effect(ledger, key, await ledger.claim(key, passing=passing))
    if not effect.done:
        await effect.finish(verdict)
    return effect


def _make_effect(ledger: EffectLedger, key: str, entry: LedgerEntry) -> Effect:
    done = entry.state == "done"
    answer = load_answer(entry.answer) if done else None
    return Effect(ledger, key, entry.id, entry.token, done, answer, entry.answer if done else "")
