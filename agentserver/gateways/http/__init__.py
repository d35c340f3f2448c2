"""The door: conversations over HTTP, Server-sent events and WebSocket. Needs the extra ``http``.

Internal.
"""

from agentserver.gateways.http.door import Door
from agentserver.gateways.http.options import DoorOptions
from agentserver.gateways.http.parts import Part

__all__ = ["Door", "DoorOptions", "Part"]
