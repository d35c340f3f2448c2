"""Validation by foreign schemas, in a process of its own.

Internal, but for the names that docs/reference.md lists.
"""
