"""Decisions about messages: each takes a conversation and gives an outcome. Internal."""
