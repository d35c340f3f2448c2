"""The engine of several servers that share one Postgres database. Internal: ``engine: postgres`` names it."""

from agentserver.engines.postgres.engine import PostgresEngine
from agentserver.engines.postgres.options import PostgresOptions

__all__ = ["PostgresEngine", "PostgresOptions"]
