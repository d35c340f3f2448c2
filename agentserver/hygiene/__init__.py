"""The rules that a payload schema must satisfy before it is relied on: one ordered list, each with a name.

Pure and standalone: imports nothing of agentserver and does no I/O. Bytes and text come in, values go out.

Internal, but for the names that docs/reference.md lists.
"""
