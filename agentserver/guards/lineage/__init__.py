"""The lineage guard: values from untrusted places, known wherever they go in a conversation.

Internal, but for the names that docs/reference.md lists.
"""
