"""Steps of this process as rows, numbered from the blocks that it has drawn.

Owns the memory of what is stored of the conversations that are claimed here, each under its claim. Refuses to send
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.receipts import given
from agentserver.engines.journal.rows import Rows
from agentserver.engines.journal.steps.numbered import StepRows
from agentserver.engines.postgres.batch import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.core.receipts import Receipt
    from agentserver.engines.journal.kept import Kept
    from agentserver.engines.journal.rows import DeliveryRow
    from agentserver.engines.journal.steps.step import Encoded, StepData
    from agentserver.engines.postgres.numbers import Numbers
    from agentserver.ports import Claim


class ClaimedRows:
    """The rows that steps build on: see ``agentserver.engines.journal.steps.numbered.StoredRows``.

    Args:
        numbers: of this process.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._claims: dict[str, Claim] = {}
        self._found: dict[str, Kept | None] = {}
        self._letters: dict[tuple[str, str], DeliveryRow] = {}
        self._rows = StepRows(self)

    def knows(self, conversation: str, claim: Claim) -> bool:
        """Say whether it is known what is stored of a conversation, since it was claimed."""
        return self._claims.get(conversation) == claim

    def learn(self, conversation: str, claim: Claim, kept: Kept | None) -> None:
        """Remember what is stored of a conversation."""
        self.drop([conversation])
        self._claims[conversation], self._found[conversation] = claim, kept

    def learn_letter(self, conversation: str, delivery: str, row: DeliveryRow) -> None:
        """Remember the row of a dead letter that the next step queues again."""
        self._letters[conversation, delivery] = row

    def drop(self, conversations: Collection[str]) -> None:
        """Forget what is stored of some conversations."""
        for conversation in conversations:
            self._claims.pop(conversation, None)
            self._found.pop(conversation, None)
            self._rows.forget(conversation)

    def prepare(self, step: StepData, encoded: Encoded, claim: Claim) -> Prepared:
        """Make the rows of a step. Raises ConflictError, TypeError, ValueError and LookupError."""
        rows = Rows()
        objection = self._rows.objection(step.conversation, step.before, None, rows)
        if objection is not None:
            raise objection
        self._rows.add(step, rows)
        self._claims[step.conversation] = claim
        self._found.pop(step.conversation, None)
        (row,) = rows.steps
        (number,) = rows.states
        receipt = given(encoded.outcome)
        name = None if receipt is None else receipt[0]
        key = step.conversation, claim, step.before
        return Prepared(*key, number, row[0], row[-1], name, rows.fold())  # type: ignore[arg-type]

    # For steps

    def find(self, conversation: str) -> Kept | None:
        """The rows that were learned."""
        return self._found.get(conversation)

    def dead(self, conversation: str, delivery: str) -> DeliveryRow | None:
        """The row that was learned."""
        return self._letters.pop((conversation, delivery), None)

    def receipt(self, number: int, name: str) -> Receipt | None:  # noqa: ARG002 - the signature of stored rows
        """None: the statement that commits a step looks for its receipt."""
        return None

    def take(self, table: str, count: int) -> int:  # noqa: ARG002 - all tables share the numbers
        """Take numbers that follow each other."""
        return self._numbers.take(count)


def count(encoded: Encoded) -> int:
    """The numbers that a step needs."""
    return 2 + len(encoded.outcome.added) + len(encoded.outcome.replies)
