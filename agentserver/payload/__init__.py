"""Payloads: from a dataclass to its schema, its codec, its examples and what to correct in a wrong one.

Internal, but for the names that docs/reference.md lists.
"""
