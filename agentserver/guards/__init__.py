"""Rules about messages, one file each. Their order is the tuple that the assembly builds.

What this module names is public: it is what the author of a guard imports.
"""

from __future__ import annotations

from agentserver.core.blueprint import Listener
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import Verdict
from agentserver.guards.base import Guard, Message, ask, deny, note

__all__ = ["Guard", "Listener", "Message", "Route", "Verdict", "ask", "deny", "note"]
