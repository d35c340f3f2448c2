"""Recorded conversations: decided again, decided by other rules, carried to another machine. Internal."""
