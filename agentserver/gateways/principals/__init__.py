"""Principals of the network: who shows which token, what the role lets one see and do, how much at a time.

Internal, but for the names that docs/reference.md lists.
"""

from agentserver.gateways.principals.callers import Caller, Rate, Rates, Role
from agentserver.gateways.principals.tokens import Tokens

__all__ = ["Caller", "Rate", "Rates", "Role", "Tokens"]
