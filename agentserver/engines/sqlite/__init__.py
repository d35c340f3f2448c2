"""The engine that stores everything in one SQLite file. Internal."""
