"""Adapters that translate one framework's events into calls and results. Each is imported only when it is used.

Internal, except for the names listed in docs/reference.md.
"""
