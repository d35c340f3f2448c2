"""Payloads: from a dataclass to its schema, its codec, its examples and what to correct in a wrong one.

Refuses to know messages: nothing here has a sender, a thread or a conversation.

Internal, but for the names that docs/reference.md lists.
"""
