"""Rules about messages. The assembly asks guards in the order of the tuple that it builds.

The names here are public: authors of guards import them.
"""

from __future__ import annotations

from agentserver.core.blueprint import Listener
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import Verdict
from agentserver.guards.base import Guard, Message, ask, deny, note

__all__ = ["Guard", "Listener", "Message", "Route", "Verdict", "ask", "deny", "note"]
