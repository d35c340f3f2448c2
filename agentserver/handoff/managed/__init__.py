"""Managed agents as sources and targets of handoffs.

Internal, but for the names that docs/reference.md lists.
"""
