"""The settings of the Postgres engine.

Owns their names and defaults. Refuses to connect.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field
from typing import Literal

LEASE = 5.0
"""Seconds after which a server that has not renewed its lease is taken for dead."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The settings of a database that several servers share.

    Args:
        url: of the database; empty for what the ``PG*`` variables say.
        schema: of the organism's tables: several organisms share a database by different schemas.
        name: of this server, for operators.
        lease: seconds after which this server is taken for dead when it has not renewed its lease.
        durability: "relaxed" permits asynchronous commits and unlogged tables.
        migrate: "never" leaves the making of tables to ``agentserver engine migrate``.
        wait: seconds for which the start waits for a database that is away.

    Raises ValueError for a schema that is not a plain lower-case name.
    """

    url: str = ""
    schema: str = "agentserver"
    name: str = field(default_factory=socket.gethostname)
    lease: float = LEASE
    durability: Literal["full", "relaxed"] = "full"
    migrate: Literal["auto", "never"] = "auto"
    wait: float = 0.0

    def __post_init__(self) -> None:
        """Check the schema, which becomes a part of statements."""
        if _SCHEMA.fullmatch(self.schema) is None:
            text = "of lower-case letters, digits and underscores, at most 40 characters, and begins with no digit"
            raise ValueError(f"{self.schema!r} is not a schema: its name consists {text}")
