"""What a conversation has seen, and what follows from it when somebody asks. Internal: the ledger holds it."""
