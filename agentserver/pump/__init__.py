"""The pump: it drives conversations and has no rules of its own.

Internal: no name in here is public.
"""

from agentserver.pump.calling.invoke import Callee
from agentserver.pump.ingress.handle import ServerHandle
from agentserver.pump.pump import Pump
from agentserver.pump.reporting import Observers

__all__ = ["Callee", "Observers", "Pump", "ServerHandle"]
