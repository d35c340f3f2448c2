"""Decisions about messages: each maps a conversation to an outcome. Internal."""
