"""Shares of the conversations: held, gained and lost. Internal."""
