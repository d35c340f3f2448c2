"""Calls of handlers: their tasks, contexts, deadlines, and those that end the process. Internal."""
