"""The pump: it drives conversations and has no rules of its own.

Internal: no name in here is public.
"""

from agentserver.pump.ingress.handle import ServerHandle
from agentserver.pump.pump import Pump
from agentserver.pump.reporting import Observers
from agentserver.pump.turns.editions import Callee

__all__ = ["Callee", "Observers", "Pump", "ServerHandle"]
