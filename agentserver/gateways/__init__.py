"""The edges at which principals and bytes come in: the console, traces for people, the bridge from managed agents.

Internal, but for the names that docs/reference.md lists.
"""
