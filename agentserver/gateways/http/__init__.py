"""The door: conversations over HTTP, Server-sent events and WebSocket. Needs the extra ``http``. Internal."""

from agentserver.gateways.http.admission import TokenKeeper
from agentserver.gateways.http.door import HttpDoor
from agentserver.gateways.http.options import DoorOptions
from agentserver.gateways.http.parts import DoorPart

__all__ = ["DoorOptions", "DoorPart", "HttpDoor", "TokenKeeper"]
