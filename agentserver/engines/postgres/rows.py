"""Rows of this process's steps, numbered from blocks that it has reserved."""

from __future__ import annotations

import asyncio
import math
from bisect import bisect, insort
from typing import TYPE_CHECKING

from agentserver.engines.journal.rows import Rows
from agentserver.engines.journal.step_rows import StepRows
from agentserver.engines.postgres.batch import PreparedStep

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.core.receipts import Receipt
    from agentserver.engines.journal.rows import DeliveryRow
    from agentserver.engines.journal.step_data import EncodedOutcome, StepData
    from agentserver.engines.journal.stored import RowCache
    from agentserver.engines.postgres.connection import Link
    from agentserver.ports import Claim


class ClaimedRows:
    """Stored rows that steps build on: see ``agentserver.engines.journal.step_rows.StoredRows``.

    Args:
        numbers: of this process.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._claims: dict[str, Claim] = {}
        self._found: dict[str, RowCache | None] = {}
        self._letters: dict[tuple[str, str], DeliveryRow] = {}
        self._rows = StepRows(self)

    def knows(self, conversation: str, claim: Claim) -> bool:
        """Check whether the rows of a conversation were learned under a claim."""
        return self._claims.get(conversation) == claim

    def learn(self, conversation: str, claim: Claim, cache: RowCache | None) -> None:
        """Remember the stored rows of a conversation."""
        self.drop([conversation])
        self._claims[conversation], self._found[conversation] = claim, cache

    def learn_letter(self, conversation: str, delivery: str, row: DeliveryRow) -> None:
        """Remember the row of a dead letter that the next step requeues."""
        self._letters[conversation, delivery] = row

    def drop(self, conversations: Collection[str]) -> None:
        """Forget the stored rows of some conversations."""
        for conversation in conversations:
            self._claims.pop(conversation, None)
            self._found.pop(conversation, None)
            self._rows.forget(conversation)

    def prepare(self, step: StepData, encoded: EncodedOutcome, claim: Claim) -> PreparedStep:
        """Make the rows of a step. Raises ConflictError, TypeError, ValueError and LookupError."""
        rows = Rows()
        objection = self._rows.find_objection(step.conversation, step.before, None, rows)
        if objection is not None:
            raise objection
        self._rows.add(step, rows)
        self._claims[step.conversation] = claim
        self._found.pop(step.conversation, None)
        (row,) = rows.steps
        (number,) = rows.states
        name = None if encoded.receipt is None else encoded.receipt.name
        key = step.conversation, claim, step.before
        return PreparedStep(*key, number, row[0], row[-1], name, rows.fold())  # type: ignore[arg-type]

    # For steps

    def find(self, conversation: str) -> RowCache | None:
        """Return the learned rows."""
        return self._found.get(conversation)

    def dead(self, conversation: str, delivery: str) -> DeliveryRow | None:
        """Take the learned row."""
        return self._letters.pop((conversation, delivery), None)

    def receipt(self, number: int, name: str) -> Receipt | None:  # noqa: ARG002 - the signature of stored rows
        """Return None: the commit statement checks the receipt."""
        return None

    def number_conversation(self) -> int:
        """Take a number."""
        return self._numbers.take(1)

    def number_step(self, deliveries: int, events: int) -> tuple[int, int, int]:
        """Take the numbers of a step's rows, which all tables share."""
        first = self._numbers.take(1 + deliveries + events)
        return first + deliveries + events, first, first + deliveries


def count(encoded: EncodedOutcome) -> int:
    """Count the numbers that a step needs."""
    return 2 + len(encoded.outcome.added) + len(encoded.outcome.replies)


BLOCK = 4096
"""Numbers in a reserved block."""

OLDEST = 600.0
"""Seconds after which the rest of a block is discarded: its part of history may be dropped."""

MOST = 65_536
"""Most remembered blocks. An event of an earlier one counts as redelivered."""

DRAW = "update @ledger set next = next + $1 returning next - $1"


class Numbers:
    """Row numbers that this process has reserved.

    Args:
        link: for reserving blocks.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._next = self._end = 0
        self._drawn = 0.0
        self._blocks: list[tuple[float, float]] = []

    async def draw(self, count: int) -> None:
        """Reserve a block unless enough numbers are left. Raises EngineError and asyncpg's errors."""
        now = asyncio.get_running_loop().time()
        if self._end - self._next < count or now - self._drawn > OLDEST:
            size = max(BLOCK, count)
            rows = await self._link.fetch(DRAW, size)
            self._next = int(rows[0][0])
            self._end, self._drawn = self._next + size, now
            self.note(self._next, size)

    def note(self, first: int, count: int) -> None:
        """Remember a range of numbers as reserved by this process."""
        insort(self._blocks, (first, first + count))
        del self._blocks[:-MOST]

    def take(self, count: int) -> int:
        """Take consecutive reserved numbers. Returns the first."""
        first, self._next = self._next, self._next + count
        assert self._next <= self._end
        return first

    def drop(self) -> None:
        """Discard unused numbers: after lost commits another server may have them too."""
        self._next = self._end = 0

    def __contains__(self, number: int) -> bool:
        """Check whether this process reserved a number."""
        place = bisect(self._blocks, (number, math.inf))
        return place > 0 and number < self._blocks[place - 1][1]
