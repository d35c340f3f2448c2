"""Adapters: each translates one framework's events into calls and results. Imported one by one, when used.

Internal, but for the names that docs/reference.md lists.
"""
