"""An MCP server that offers listeners as tools. Internal."""
