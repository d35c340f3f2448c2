"""Principals of the network: their tokens, roles and rates.

Internal, but for the names that docs/reference.md lists.
"""

from agentserver.gateways.principals.callers import Caller, Delay, Rate, Rates, Role
from agentserver.gateways.principals.tokens import Tokens

__all__ = ["Caller", "Delay", "Rate", "Rates", "Role", "Tokens"]
