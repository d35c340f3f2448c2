"""The present work of a running server, for its own user on the same machine. Internal."""
