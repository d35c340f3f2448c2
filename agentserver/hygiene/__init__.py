"""What a payload schema must satisfy before anybody relies on it: one ordered list of named rules.

Pure and standalone: imports nothing of agentserver and does no I/O. Bytes and text come in, values go out.
"""
