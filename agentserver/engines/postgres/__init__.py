"""The engine of several servers that share one Postgres database. Internal: ``engine: postgres`` selects it."""

from agentserver.engines.postgres.connection import PostgresOptions
from agentserver.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine", "PostgresOptions"]
