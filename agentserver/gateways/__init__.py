"""The edges of a server: the console, the HTTP door, the live view, and the bridge from managed agents.

Internal, but for the names that docs/reference.md lists.
"""
