"""Routing of drafts: answers, self-calls, services, peers, broadcasts.

An unresolved draft has no receiver and no explanation. A draft without a target is matched only against listeners that
the sender may address, so that the result reveals nothing about others.

A listener may ask a service for something, and may pass on to its caller, unchanged, the SystemError that it was
given. No other payload of the system may be sent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from agentserver.contract import Code, Target
from agentserver.core.messages import SERVICES
from agentserver.core.records.details import Ground
from agentserver.core.refusals import Refusal
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lxml import etree

    from agentserver.core.blueprint import Blueprint, Listener
    from agentserver.core.messages import Draft, Question

CORRECTION = (
    "only the system makes this payload: send one of your own, or pass a SystemError that you were given on to "
    "your caller unchanged"
)
"""The correction for the sender."""


def reject_reserved(
    draft: Draft, proposals: Sequence[Proposal], sender: Sender, services: Mapping[str, str]
) -> Refusal | None:
    """Refuse a draft that would speak for the system.

    Args:
        draft: the message, with a payload of the system's namespace.
        proposals: its receivers.
        sender: who sends it.
        services: by payload element, the service that accepts it.
    """
    routes = {proposal.route for proposal in proposals}
    if draft.root in services and draft.to in {services[draft.root], None} and routes <= {Route.SERVICE}:
        return None  # whether the service is within reach is for routing to say
    if (
        routes == {Route.ANSWER}
        and sender.answered_error is not None
        and canonical(draft.element) == sender.answered_error
    ):
        return None
    return refuse_forgery(draft.root, draft.to if isinstance(draft.to, str) else "")


def refuse_forgery(root: str, to: str = "") -> Refusal:
    """Refuse a payload of the system's namespace."""
    return Refusal(Code.VALIDATION, Ground.RESERVED.of(root), to, (CORRECTION,))


_new = tuple.__new__
"""Makes a wide tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


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
    """One message to one receiver, before it is judged. Messages of the system are not judged.

    Args:
        sender: the listener that sends it, or a placeholder for the system.
        thread: the sender's thread.
        to: the receiver.
        route: in what capacity.
        root: name of the payload element.
        markup: the payload element as text.
        element: the same, parsed. Not to be changed.
        questions: to be approved by a person before delivery.
        allowed: the only peers in force on the thread that it opens and below; None for no narrowing.
        about: for a SystemError, the listener whose failure it reports.
        place: index of its draft in the sender's result, from zero.
        after: delay of its delivery, in seconds.
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
    after: float = 0.0


class Sender(NamedTuple):
    """Author of a draft, with its thread and the time.

    Args:
        listener: the author.
        thread: its thread.
        caller: of that thread; None on the principal's root.
        at: seconds since the epoch.
        answered_error: the SystemError being answered, in canonical form; None for any other payload.
    """

    listener: Listener
    thread: str
    caller: str | None
    at: float = 0.0
    answered_error: bytes | None = None


def resolve(draft: Draft, sender: Sender, blueprint: Blueprint, place: int = 0) -> Sequence[Proposal]:
    """Return a proposal for each receiver of a draft; none when it cannot be delivered.

    Args:
        draft: the message.
        sender: its author.
        blueprint: the listeners.
        place: index of the draft in the sender's result.
    """
    to, own = draft.to, sender.listener.name
    if to is None:
        return _resolve_root(draft, sender, blueprint, place)
    # The sender's own name means a self-call even when its caller is a thread of its own: only respond() returns.
    if to is Target.CALLER or (to == sender.caller and to != own):
        name, route = sender.caller, Route.ANSWER
    elif to in SERVICES:
        name, route = _find_service(draft, sender, blueprint), Route.SERVICE
    else:
        name = str(to) if blueprint.accepts(str(to), draft.root) else None
        route = Route.SELF if to == own else Route.PEER
    if name is None:
        return ()
    at, root, markup, element = sender.thread, draft.root, draft.markup, draft.element
    listener, after = sender.listener, draft.after
    return (_new(Proposal, (listener, at, name, route, root, markup, element, (), None, "", place, after)),)


def _find_service(draft: Draft, sender: Sender, blueprint: Blueprint) -> str | None:
    """Find the service that accepts a draft, or None. Services work for handlers only, not for the principal's root."""
    service = None if sender.caller is None else blueprint.services.get(draft.root)
    return service if draft.to in {service, None} else None


def _resolve_root(draft: Draft, sender: Sender, blueprint: Blueprint, place: int) -> Sequence[Proposal]:
    """Find the receivers of a draft that names none by the root of its payload."""
    service = _find_service(draft, sender, blueprint)
    if service is not None:
        return (_propose(draft, sender, service, Route.SERVICE, place),)
    own = sender.listener.name
    takers = [
        name for name in blueprint.list_takers(draft.root) if name == own or name in sender.listener.peers
    ]
    if len(takers) > 1:
        # None of them gets a broadcast when one does not take broadcasts.
        if not all(blueprint.listeners[name].broadcast for name in takers):
            return ()
        return [_propose(draft, sender, name, Route.PEER, place) for name in takers if name != own]
    if takers:
        return resolve(draft._replace(to=takers[0]), sender, blueprint, place)
    # A payload that no listener within reach declares is what a tool answers with.
    return () if sender.caller is None else (_propose(draft, sender, sender.caller, Route.ANSWER, place),)


def _propose(draft: Draft, sender: Sender, to: str, route: Route, place: int) -> Proposal:
    return Proposal(
        sender.listener,
        sender.thread,
        to,
        route,
        draft.root,
        draft.markup,
        draft.element,
        (),
        None,
        "",
        place,
        draft.after,
    )
