"""Priced work of handlers: amounts, what may be spent, and the port through which work is charged before it is done.

Owns those values. Refuses to know what is paid for: a completion of a language model is the first such work.

Whoever does priced work for a running handler, such as the completer of ``agentserver.llm``, does

    purse = invocation().purse                                # None outside of a server, as in a unit test
    reserved = await purse.reserve(Amount(tokens=most, money=usd(dearest)), "small")  # raises SpentError: send nothing
    ...                                                        # the work itself
    await purse.settle(reserved, Amount(tokens=used, money=usd(price)))

``reserve`` comes back when the reservation is committed: from then on the most that the work may cost counts as spent,
in the request, the conversation and the account of the listener, and it stays so when the handler, the work or the
process ends before ``settle``. Several reservations of one invocation may be open at once. Work that certainly cost
nothing, such as a request that was refused with 429, is settled with ``Amount()``; work of which the cost is unknown is
not settled. A SpentError that leaves the handler, also as the cause of another exception, reaches the caller of its
thread as ``budget``; the listener is not tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Amount", "Purse", "SpentError", "usd"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Something that is spent. None of it is ever negative.

    Args:
        tokens: of language models, read and written.
        money: in millionths of a US dollar.
    """

    tokens: int = 0
    money: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for less than nothing."""
        if self.tokens < 0 or self.money < 0:
            raise ValueError(f"nothing costs less than nothing: {self}")

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(max(0, self.tokens - other.tokens), max(0, self.money - other.money))

    def __str__(self) -> str:
        return f"{self.tokens} tokens, ${self.money / 1e6:.6f}" if self.money else f"{self.tokens} tokens"


NOTHING_SPENT = Amount()


def usd(dollars: float) -> int:
    """US dollars in millionths, rounded up."""
    return ceil(round(dollars * 1e6, 3))


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be spent.

    Args:
        tokens: None for no bound.
        money: in millionths of a US dollar; None for no bound.
    """

    tokens: int | None = None
    money: int | None = None

    def holds(self, amount: Amount) -> bool:
        """True when so much may be spent."""
        tokens = self.tokens is None or amount.tokens <= self.tokens
        return tokens and (self.money is None or amount.money <= self.money)


UNBOUNDED = Budget()


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets of an organism.

    Args:
        request: of one message from outside.
        conversation: of everything in one conversation.
        agents: of one listener in one conversation, by its name.
    """

    request: Budget = UNBOUNDED
    conversation: Budget = UNBOUNDED
    agents: Mapping[str, Budget] = field(default_factory=dict)


NO_BUDGETS = Budgets()


class SpentError(RuntimeError):
    """The work would cost more than is left of a budget. Nothing was charged for it, and it must not be done."""


class Purse(Protocol):
    """The purse of a running handler; its budgets are those of its request, its conversation and its listener."""

    async def reserve(self, most: Amount, what: str) -> str:
        """Charge the most that some work may cost, and keep that; gives the id to settle it by.

        Args:
            most: that it may cost.
            what: a word for the record, such as the name of a model.

        Raises:
            SpentError: it is more than is left, and nothing is charged.
            RuntimeError: it cannot be kept at present, and nothing is charged.
        """
        ...

    async def settle(self, reservation: str, cost: Amount) -> None:
        """Charge what the work has cost in place of what was reserved for it.

        One that is settled already, or whose invocation is over, stays as it is.
        """
        ...
