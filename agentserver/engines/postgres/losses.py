"""Steps that the database has acknowledged and lost since, as a standby may have that was behind when it took over.

Owns the memory of the latest acknowledged steps, and the comparison with what is kept, at each new connection. Ids are
compared rather than versions: a version may have been given again. Refuses to accept a loss: an operator does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.engines.postgres.connection import Connection
    from agentserver.engines.postgres.options import PostgresOptions

MOST = 8192
"""Conversations of which the latest step is remembered."""

LONGEST = 3600.0
"""Seconds for which it is."""

NAMED = 100
"""Conversations that are named in the row of a loss."""

_THERE = "select number, chain from {0}.step where number = any($1::bigint[])"
_NOTE = "insert into {0}.loss (name, conversations) values ($1, $2)"

logger = logging.getLogger("agentserver.journal")


class _Step(NamedTuple):
    number: int
    chain: bytes
    at: float


class Acknowledged:
    """The latest acknowledged step of each conversation that was at work here of late.

    Args:
        options: of the database.
    """

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._steps: OrderedDict[str, _Step] = OrderedDict()
        self._comparing = (
            asyncio.Lock()
        )  # two connections made at once would note one loss twice, to be accepted twice

    def note(self, conversation: str, number: int, chain: bytes) -> None:
        """Remember a step."""
        self._steps[conversation] = _Step(number, chain, monotonic())
        self._steps.move_to_end(conversation)
        if len(self._steps) > MOST:
            self._steps.popitem(last=False)

    def forget(self, conversations: Collection[str]) -> None:
        """Forget what may be removed on purpose, or what was accepted as lost."""
        for conversation in conversations:
            self._steps.pop(conversation, None)

    async def compare(self, connection: Connection) -> bool:
        """Look for what is missing, and note it for all servers; gives whether anything is."""
        async with self._comparing:
            return await self._compare(connection)

    async def _compare(self, connection: Connection) -> bool:
        now = monotonic()
        known = {key: step for key, step in self._steps.items() if now - step.at < LONGEST}
        numbers = [step.number for step in known.values()]
        schema = f'"{self._options.schema}"'
        there = dict(await connection.fetch(_THERE.format(schema), numbers)) if numbers else {}
        missing = [key for key, step in known.items() if there.get(step.number) != step.chain]
        if not missing:
            return False
        logger.critical(
            "the database has lost acknowledged steps of %d conversations: nothing new is accepted until an operator"
            " accepts the loss with agentserver engine accept-loss",
            len(missing),
        )
        await connection.execute(_NOTE.format(schema), self._options.name, missing[:NAMED])
        self.forget(missing)
        return True
