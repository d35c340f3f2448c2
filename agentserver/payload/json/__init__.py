"""The JSON face of payloads, for model tools, MCP and HTTP alike: schemas, values to elements and back.

Refuses to know protocols: nothing here has a tool, a model or a request.

Internal.
"""
