"""A database that servers share, as a command reads and changes it: by a connection of its own, without a lease.

Owns the connection's beginning and end, and the words for tables that are not there. Refuses to work on conversations:
a server does, which has a lease.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from agentserver.engines.journal import verify
from agentserver.engines.journal.connection import snapshot, transaction
from agentserver.engines.journal.reader import Reader
from agentserver.engines.postgres import history
from agentserver.engines.postgres.engine import PostgresEngine
from agentserver.engines.postgres.reading import SyncConnection
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.core.guard import CoreGuard
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.journal.connection import Connection
    from agentserver.engines.postgres.options import PostgresOptions


_THERE = "select to_regclass(?)::text"


@contextmanager
def connected(options: PostgresOptions) -> Iterator[Connection]:
    """Connect for a command, as if to a file. Raises EngineError, also where there are no tables."""
    with closing(SyncConnection(options, "command")) as connection:
        if connection.execute(_THERE, (f"{options.schema}.ledger",)).fetchone() == (None,):
            raise EngineError(f"schema {options.schema} has no tables: agentserver engine migrate makes them")
        yield connection


@contextmanager
def reading(options: PostgresOptions, guards: Sequence[CoreGuard] = ()) -> Iterator[Reader]:
    """Read what servers have kept, while they run. Raises EngineError.

    Args:
        options: of the database.
        guards: those whose memories are kept; without them a conversation that holds one cannot be loaded.
    """
    with connected(options) as connection:
        yield Reader(connection, guards)


def find_faults(options: PostgresOptions) -> Iterator[str]:
    """Find rows that are not what was written, as lines, of one moment. Raises EngineError."""
    with connected(options) as connection, snapshot(connection):
        yield from verify.find_faults(connection, (EngineError,), history.KEPT)


@contextmanager
def changing(options: PostgresOptions) -> Iterator[Connection]:
    """Change what no server works on, in one transaction. Raises EngineError."""
    with connected(options) as connection, transaction(connection):
        yield connection


def commit_decision(
    options: PostgresOptions, guards: Sequence[CoreGuard], outcome: Outcome
) -> EngineError | None:
    """Claim the conversation of an outcome and keep the outcome; its servers take up what is queued by it.

    Returns the reason where it cannot be kept: a server that works on the conversation is one.
    """
    try:
        asyncio.run(_commit(options, guards, outcome))
    except EngineError as error:
        return error
    return None


async def _commit(options: PostgresOptions, guards: Sequence[CoreGuard], outcome: Outcome) -> None:
    conversation = outcome.conversation.id
    async with PostgresEngine(options, guards) as engine:
        claim = await engine.claim(conversation) if outcome.before else engine.begin_claim(conversation)
        if claim is None:
            raise EngineError(
                f"a server has conversation {conversation}: decide in its live view, or when the conversation has"
                " rested for half a minute"
            )
        await engine.commit(claim, outcome)
        engine.marks.end()
