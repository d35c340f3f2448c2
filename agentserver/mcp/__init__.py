"""The Model Context Protocol: tools of its servers as listeners, and an organism as a server of it.

Refuses to know rules: each call is a message, admitted like every other. The library ``mcp`` is an extra, imported when
a server is connected and not before.
"""
