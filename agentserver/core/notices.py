"""Messages that the system itself writes: a SystemError, or an answer of ``system.todo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.blueprint import Listener
from agentserver.core.drafts.routing import Proposal, Route
from agentserver.core.messages import SYSTEM
from agentserver.wire import envelope

if TYPE_CHECKING:
    from agentserver.core.guard import Rules


def notice(
    payload: object, thread: str, rules: Rules, *, sender: str = SYSTEM, caller: bool = False, about: str = ""
) -> Proposal:
    """A message of the system's to a thread.

    Args:
        payload: its payload, of a class of the system's.
        thread: the thread that it is about.
        rules: whose codecs write it.
        sender: the name the receiver sees.
        caller: send it to the caller of the thread, as the thread's answer, and not to the thread itself.
        about: for a SystemError, the listener whose failure it reports.
    """
    codec = rules.codecs.of(type(payload))
    markup = codec.encode(payload)
    element = envelope.read_written(markup, rules.bounds)
    assert not isinstance(element, envelope.Malformed)  # a codec of ours has written it
    route = Route.ANSWER if caller else Route.NOTICE
    return Proposal(Listener(sender, (), ""), thread, "", route, codec.name, markup, element, about=about)
