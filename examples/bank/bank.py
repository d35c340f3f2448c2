"""A bank whose listeners are functions: each signature declares what the listener takes and answers with."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, NamedTuple

from annotated_types import Gt, Len

from agentserver import invocation
from agentserver.provenance import Amount, Destination


@dataclass(frozen=True)
class Receipt:
    """A transfer that was made."""

    number: str
    iban: str
    amount: Decimal


class Booking(NamedTuple):
    """A line of an account."""

    day: date
    text: str
    amount: Decimal


async def transfer(
    iban: Destination, amount: Annotated[Amount, Gt(0)], note: Annotated[str, Len(0, 80)] = ""
) -> Receipt:
    """Transfer money to an account.

    Args:
        iban: the account of the payee.
        amount: in euros.
        note: shown to the payee.
    """
    return Receipt(invocation().idempotency_key, iban, amount)


async def balance(account: str) -> Decimal:
    """Return the balance of an account, in euros."""
    return Decimal("1250.00") if account == "current" else Decimal(0)


async def last_booking(account: str) -> Booking | None:
    """Return the latest booking of an account, or None for an empty one."""
    return Booking(date(2026, 11, 2), "Rent", Decimal("-900.00")) if account == "current" else None


async def close_year(year: int) -> AsyncIterator[str | Receipt]:
    """Close the books of a year, and report each month.

    Args:
        year: with four digits.
    """
    for month in range(1, 13):
        yield f"{year}-{month:02d} is closed"
    yield Receipt(f"closing-{year}", "own account", Decimal("350.00"))
