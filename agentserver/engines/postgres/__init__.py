"""The engine that keeps everything in one Postgres database, for several servers at once. Internal."""
