"""What a running server is doing, for its own user on the same machine. Internal."""
