"""Foreign tools as payloads: what a JSON Schema of somebody else's becomes here, and what was agreed of it.

Refuses to know protocols, processes and files. Internal.
"""
