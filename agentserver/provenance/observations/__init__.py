"""The texts that a conversation has seen, and what follows from them when asked for. Internal: the ledger holds it."""
