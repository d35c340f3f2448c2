"""Internal: the decisions about what a running invocation spends."""
