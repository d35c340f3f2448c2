"""Declarations of an operator and of payload types: sources, sinks, roles and plans. Internal."""
