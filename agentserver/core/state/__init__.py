"""The parts of a conversation as values: threads, todos, requests, approvals.

Internal, but for the names that docs/reference.md lists.
"""
