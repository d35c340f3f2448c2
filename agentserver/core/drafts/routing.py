"""The way of a draft: answers, self-calls, services, peers, broadcasts.

Owns the rules by which a target becomes receivers. Refuses to allow anything; guards decide that about each
proposal it makes. What it cannot resolve it gives no receiver, without saying why.

What names no target is looked for among those whom the sender may address and nowhere else, so that what becomes
of it tells the sender nothing about others.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Target
from agentserver.core.messages import TODO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lxml import etree

    from agentserver.core.blueprint import Blueprint, Listener
    from agentserver.core.messages import Draft, Question

_new = tuple.__new__


class Route(StrEnum):
    """In what capacity a receiver is addressed."""

    ANSWER = "answer"  # the caller of the sending thread
    SELF = "self"  # the sender, on a new thread
    SERVICE = "service"  # system.*
    PEER = "peer"  # any other listener
    NOTICE = "notice"  # the sending thread itself; the system's messages alone go there
    REDRIVEN = (
        "redriven"  # by an operator, with a dead letter, in the name of a principal who did not write it
    )


class Proposal(NamedTuple):
    """One message to one receiver, before it is judged. The system's own are not judged.

    Args:
        sender: the listener that wants to send it, or a stand-in for the system.
        thread: the sender's thread.
        to: the receiver.
        route: in what capacity.
        root: name of the payload element.
        markup: the payload element as text.
        element: the same, parsed. Not to be changed.
        questions: what a person has to approve before it goes on its way.
        allowed: the only peers in force on the thread that it opens and below; None for no narrowing.
        about: for a SystemError, the listener whose failure it reports.
        place: of its draft among those of the sender, counted from zero.
    """

    sender: Listener
    thread: str
    to: str
    route: Route
    root: str
    markup: str
    element: etree._Element
    questions: tuple[Question, ...] = ()
    allowed: frozenset[str] | None = None
    about: str = ""
    place: int = 0


class Sender(NamedTuple):
    """The listener that writes a draft, with the thread and the time at which it does.

    Args:
        listener: by whom.
        thread: on which thread.
        caller: of that thread; None on the principal's root.
        at: seconds since the epoch.
        given: the SystemError that the sender was given and answers to, in canonical form; None when it is another
            payload.
    """

    listener: Listener
    thread: str
    caller: str | None
    at: float = 0.0
    given: bytes | None = None


def resolve(draft: Draft, sender: Sender, blueprint: Blueprint) -> tuple[Proposal, ...]:
    """The receivers of a draft; none when it cannot be delivered."""
    if draft.to is None:
        return _by_root(draft, sender, blueprint)
    route = _by_name(draft.to, draft.root, sender, blueprint)
    if route is None:
        return ()
    to = sender.caller if route is Route.ANSWER else draft.to
    return (_proposal(draft, sender, str(to), route),)


def _by_name(to: str | Target, root: str, sender: Sender, blueprint: Blueprint) -> Route | None:
    # The sender's own name means a self-call even when its caller is a thread of its own: only respond() returns.
    if to is Target.CALLER or (to == sender.caller and to != sender.listener.name):
        return Route.ANSWER if sender.caller is not None else None
    if to == TODO:
        return Route.SERVICE if _serves(root, sender, blueprint) else None
    if not blueprint.accepts(str(to), root):
        return None
    return Route.SELF if to == sender.listener.name else Route.PEER


def _serves(root: str, sender: Sender, blueprint: Blueprint) -> bool:
    """True when a service takes it. Services work for handlers; the principal's root has none."""
    return sender.caller is not None and root in blueprint.services


def _by_root(draft: Draft, sender: Sender, blueprint: Blueprint) -> tuple[Proposal, ...]:
    if _serves(draft.root, sender, blueprint):
        return (_proposal(draft, sender, TODO, Route.SERVICE),)
    own = sender.listener.name
    takers = [name for name in blueprint.takers(draft.root) if name == own or name in sender.listener.peers]
    if len(takers) > 1:
        return _broadcast(draft, sender, [blueprint.listeners[name] for name in takers])
    if takers:
        return resolve(draft._replace(to=takers[0]), sender, blueprint)
    # A payload that no listener within reach declares is what a tool answers with.
    return () if sender.caller is None else (_proposal(draft, sender, sender.caller, Route.ANSWER),)


def _broadcast(draft: Draft, sender: Sender, takers: Sequence[Listener]) -> tuple[Proposal, ...]:
    """A proposal for each but the sender itself; none when one of them does not take broadcasts."""
    if not all(taker.broadcast for taker in takers):
        return ()
    others = [taker.name for taker in takers if taker.name != sender.listener.name]
    return tuple(_proposal(draft, sender, name, Route.PEER) for name in others)


def _proposal(draft: Draft, sender: Sender, to: str, route: Route) -> Proposal:
    return _new(
        Proposal,
        (sender.listener, sender.thread, to, route, draft.root, draft.markup, draft.element, (), None, "", 0),
    )
