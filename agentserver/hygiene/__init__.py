"""Rules that a payload schema must satisfy before it is used, as one ordered list of named rules.

Pure and standalone: imports nothing from agentserver and does no I/O.

Internal, except for the names that docs/reference.md lists.
"""
