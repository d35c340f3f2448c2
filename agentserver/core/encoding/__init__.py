"""Conversations and decisions as bytes, and decisions taken again from them.

Internal, but for the names that docs/reference.md lists.
"""
