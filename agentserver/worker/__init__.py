"""Handlers in processes of their own: the protocol, the process and the wall around it. Internal."""
