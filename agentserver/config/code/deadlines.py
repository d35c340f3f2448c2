"""Deadlines of agents, derived from the backends that answer for their models.

Owns the time that an invocation with one completion takes at most. Refuses to know other bounds of a listener.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.completion import Backend, LanguageModels
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredListener

ROOM = 5.0
"""Seconds of an invocation in addition to the attempts at the backends of its model."""

DAY = 86_400.0
"""The longest deadline of a listener, in seconds."""


def derive_deadlines(
    bound: Sequence[BoundListener],
    declared: Iterable[DeclaredListener],
    models: LanguageModels,
    report: Mistakes,
) -> list[BoundListener]:
    """Give each agent a deadline into which an attempt at each backend fits.

    A deadline that the configuration states is kept. Where it is too short, there is a warning.
    """
    places = {one.entry.name: one for one in declared}
    found = []
    for item in bound:
        place = places.get(item.listener.name)
        if place is None or not item.listener.agent:
            found.append(item)
        elif "deadline" not in place.entry.model_fields_set:
            found.append(_derived(item, models))
        else:
            _check(item, place, models, report)
            found.append(item)
    return found


def _derived(item: BoundListener, models: LanguageModels) -> BoundListener:
    """The listener with the deadline of its model; without a ``model:``, with that of the slowest one."""
    names = _named(item) or tuple(models.models)
    longest = max((_seconds(name, models) for name in names), default=0.0)
    deadline = min(max(item.listener.deadline, longest), DAY)
    return replace(item, listener=replace(item.listener, deadline=deadline))


def _check(item: BoundListener, place: DeclaredListener, models: LanguageModels, report: Mistakes) -> None:
    """Warn of a deadline that ends an attempt at a backend, or comes before the last of them."""
    deadline = item.listener.deadline
    for name in _named(item):
        needed, slowest = _seconds(name, models), _slowest(name, models)
        if slowest is not None and deadline < slowest.timeout:
            message = f"ends a request to {slowest.name}, which may take {slowest.timeout:g} s"
        elif deadline < needed:
            message = f"leaves no time to ask each backend of {name} once"
        else:
            continue
        hint = f"use {needed:g}s or leave it out, or lower timeout of the backends"
        report.warning(ConfigCode.DEADLINE, place.where("deadline"), message, hint)


def _named(item: BoundListener) -> tuple[str, ...]:
    """The models that an agent without code asks."""
    if item.agent is None:
        return ()
    return tuple(filter(None, (item.agent.model, item.agent.summary)))


def _remote(name: str, models: LanguageModels) -> list[Backend]:
    choice, known = models.models.get(name), models.backends
    named: Mapping[str, None] = dict.fromkeys(() if choice is None else choice.backends)
    return [known[one] for one in named if one in known and known[one].provider != "scripted"]


def _seconds(name: str, models: LanguageModels) -> float:
    """The time for one attempt at each backend of a model; none where all are scripts."""
    backends = _remote(name, models)
    return sum(one.timeout for one in backends) + ROOM if backends else 0.0


def _slowest(name: str, models: LanguageModels) -> Backend | None:
    return max(_remote(name, models), key=lambda one: one.timeout, default=None)
