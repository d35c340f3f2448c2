"""The JSON face of payloads, for model tools, MCP and HTTP alike: schemas, values to elements and back.

Internal.
"""
