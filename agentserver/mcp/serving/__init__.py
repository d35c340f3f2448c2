"""Listeners as tools of an MCP server: what is offered, whose call it is, what comes of it.

Internal.
"""
