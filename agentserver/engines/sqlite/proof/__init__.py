"""The proof that a journal is as it was written: seals, its head, and their check. Internal."""
