"""An engine over a replicated log: every server applies the log to a journal of its own. Internal."""
