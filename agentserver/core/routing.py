"""Where a draft goes: answers, self-calls, services, peers, broadcasts.

Owns the rules by which a target becomes receivers. Refuses to know who is permitted; guards decide that about each
proposal it makes. What it cannot resolve it gives no receiver, without saying why.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Target
from agentserver.core.messages import TODO

if TYPE_CHECKING:
    from lxml import etree

    from agentserver.core.blueprint import Blueprint, Listener
    from agentserver.core.replies import Draft


class Route(StrEnum):
    """In what capacity a receiver is addressed."""

    ANSWER = "answer"  # the caller of the sending thread
    SELF = "self"  # the sender, on a new thread
    SERVICE = "service"  # system.*
    PEER = "peer"  # any other listener


class Proposal(NamedTuple):
    """One message to one receiver, before it is judged.

    Args:
        sender: the listener that wants to send it.
        thread: the sender's thread.
        to: the receiver.
        route: in what capacity.
        root: name of the payload element.
        markup: the payload element as text.
        element: the same, parsed. Not to be changed.
    """

    sender: Listener
    thread: str
    to: str
    route: Route
    root: str
    markup: str
    element: etree._Element


class Place(NamedTuple):
    """Where a draft is written: by whom, on which thread, for which caller (None on the principal's root)."""

    listener: Listener
    thread: str
    caller: str | None


def resolve(draft: Draft, place: Place, blueprint: Blueprint) -> tuple[Proposal, ...]:
    """The receivers of a draft; none when it cannot be delivered."""
    if draft.to is None:
        return _by_root(draft, place, blueprint)
    route = _by_name(draft.to, draft.root, place, blueprint)
    if route is None:
        return ()
    to = place.caller if route is Route.ANSWER else draft.to
    return (_proposal(draft, place, str(to), route),)


def _by_name(to: str | Target, root: str, place: Place, blueprint: Blueprint) -> Route | None:
    # The sender's own name means a self-call even when its caller is a thread of its own: only respond() returns.
    if to is Target.CALLER or (to == place.caller and to != place.listener.name):
        return Route.ANSWER if place.caller is not None else None
    if to == TODO:
        return Route.SERVICE if root in blueprint.services else None
    if not blueprint.accepts(str(to), root):
        return None
    return Route.SELF if to == place.listener.name else Route.PEER


def _by_root(draft: Draft, place: Place, blueprint: Blueprint) -> tuple[Proposal, ...]:
    if draft.root in blueprint.services:
        return (_proposal(draft, place, TODO, Route.SERVICE),)
    takers = blueprint.takers(draft.root)
    if not takers:
        # A payload that only ever travels as an answer has no listener of its own.
        return () if place.caller is None else (_proposal(draft, place, place.caller, Route.ANSWER),)
    if len(takers) > 1:
        if not all(blueprint.listeners[name].broadcast for name in takers):
            return ()
        takers = tuple(name for name in takers if name != place.listener.name)
    routes = ((name, _by_name(name, draft.root, place, blueprint)) for name in takers)
    return tuple(_proposal(draft, place, name, route) for name, route in routes if route is not None)


def _proposal(draft: Draft, place: Place, to: str, route: Route) -> Proposal:
    return Proposal(place.listener, place.thread, to, route, draft.root, draft.markup, draft.element)
