"""The organism watched and decided about in a browser: the page, and the JSON it is made of. Internal."""

from agentserver.gateways.live.pages import Assets
from agentserver.gateways.live.routes import LiveView

__all__ = ["Assets", "LiveView"]
