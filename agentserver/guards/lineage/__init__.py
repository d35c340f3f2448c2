"""Lineage guard, which tracks untrusted values through a conversation.

Internal, except the names listed in docs/reference.md.
"""
