"""The pump: it drives conversations and has no rules of its own."""

from agentserver.pump.exchange import ServerExchange
from agentserver.pump.pump import Bound, Pump

__all__ = ["Bound", "Pump", "ServerExchange"]
