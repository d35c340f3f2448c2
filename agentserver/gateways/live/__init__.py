"""The live view: a web page to follow the organism and decide, and its JSON routes. Internal."""

from agentserver.gateways.live.pages import Assets
from agentserver.gateways.live.routes import LiveView

__all__ = ["Assets", "LiveView"]
