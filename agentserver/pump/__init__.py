"""The pump: it drives conversations and has no rules of its own.

Internal: no name in here is public.
"""

from agentserver.pump.exchange import ServerExchange
from agentserver.pump.invoke import Bound
from agentserver.pump.pump import Pump
from agentserver.pump.reporting import Onlookers

__all__ = ["Bound", "Onlookers", "Pump", "ServerExchange"]
