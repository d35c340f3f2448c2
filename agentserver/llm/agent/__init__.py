"""Handlers that are agents: one completion for each message. Internal."""
