"""The pump: it drives conversations and has no rules of its own. Internal."""
