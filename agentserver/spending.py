"""Priced work of handlers: amounts, budgets, and the port that charges work in advance.

Code that does priced work for a running handler, such as the completer of ``agentserver.llm``, does

purse = invocation().purse # None outside of a server, as in a unit test reserved = await
purse.reserve(Amount(tokens=most, money=usd(dearest)), "small") # raises BudgetExceededError: send nothing ... # the
work itself await purse.settle(reserved, Amount(tokens=used, money=usd(price)))

``reserve`` returns when the reservation is committed: from then on the highest possible cost counts as spent,
in the request, the conversation and the account of the listener, even if the handler, the work or the process
ends before ``settle``. One invocation may hold several reservations. Work that certainly cost nothing, such as
a request refused with 429, is settled with ``Amount()``; work of unknown cost is not settled. A BudgetExceededError
that leaves the handler, also as the cause of another exception, reaches the caller of its thread as ``budget``; the
listener is not retried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Amount", "BudgetExceededError", "Purse", "usd"]


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of tokens and money, never negative.

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
    """Convert US dollars to millionths, rounded up."""
    return ceil(round(dollars * 1e6, 3))


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit of spending.

    Args:
        tokens: None for no bound.
        money: in millionths of a US dollar; None for no bound.
    """

    tokens: int | None = None
    money: int | None = None

    def holds(self, amount: Amount) -> bool:
        """Tell whether the budget allows an amount."""
        tokens = self.tokens is None or amount.tokens <= self.tokens
        return tokens and (self.money is None or amount.money <= self.money)


UNBOUNDED = Budget()


@dataclass(frozen=True, slots=True)
class Budgets:
    """Budgets of an organism.

    Args:
        request: of one message from outside.
        conversation: of everything in one conversation.
        agents: of one listener in one conversation, by its name.
    """

    request: Budget = UNBOUNDED
    conversation: Budget = UNBOUNDED
    agents: Mapping[str, Budget] = field(default_factory=dict)


NO_BUDGETS = Budgets()


class BudgetExceededError(RuntimeError):
    """Error that work would exceed a budget. Nothing was charged, and the work must not be done."""


class Purse(Protocol):
    """Purse of a running handler, with the budgets of its request, its conversation and its listener."""

    async def reserve(self, maximum: Amount, purpose: str) -> str:
        """Charge the highest possible cost of some work. Returns the id for ``settle``.

        Args:
            maximum: highest possible cost.
            purpose: a word for the record, such as the name of a model.

        Raises:
            BudgetExceededError: it exceeds a budget, and nothing is charged.
            RuntimeError: it cannot be stored now, and nothing is charged.
        """

    async def settle(self, reservation: str, cost: Amount) -> None:
        """Replace a reservation by the actual cost.

        A settled reservation, or one of a finished invocation, is not changed.
        """
