"""The pump: it drives conversations and has no rules of its own."""

from agentserver.pump.exchange import ServerExchange
from agentserver.pump.invoke import Bound
from agentserver.pump.pump import Pump

__all__ = ["Bound", "Pump", "ServerExchange"]
