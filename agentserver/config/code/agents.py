"""Agents that are language models: ``model:``, ``prompt:``, ``answer:`` and ``agent:`` of a listener."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from agentserver.completion import AgentTool, ReadyAgent
from agentserver.config.findings import did_you_mean
from agentserver.core.handoffs import Handoff, Task
from agentserver.payload.codec import Codecs
from agentserver.payload.names import local
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.completion import Backend, LanguageModels
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredListener
    from agentserver.core.blueprint import Limits

LONGEST = 64
"""Characters of the name of a tool."""

OTHER = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that the name of a tool may not hold."""

RESERVE = 14_000
"""Bytes of the storage of a thread next to the history, for what an agent keeps of its present turn."""

_KEYS = ("prompt", "answer")


def check_keys(declared: Sequence[DeclaredListener], report: Mistakes) -> None:
    """Refuse keys of an agent on a listener without a model, and a handler on one with a model."""
    for one in declared:
        entry = one.entry
        if entry.model is not None and (entry.handler is not None or "handler" in one.faulty):
            report.add_error(
                ConfigCode.AGENT, one.locate("model"), "a listener has a handler or a model, not both"
            )
        if entry.model is not None:
            continue
        for key in _KEYS:
            if getattr(entry, key) is not None:
                report.add_error(ConfigCode.AGENT, one.locate(key), "belongs to a listener with a model")
        if entry.agent is not None and entry.agent.model_fields_set:
            report.add_error(
                ConfigCode.AGENT,
                one.locate("agent"),
                "bounds belong to a listener with a model",
                "write agent: true",
            )


class AgentDependencies(NamedTuple):
    """Parts of the organism that an agent depends on."""

    models: LanguageModels | None
    limits: Limits


def equip_agents(
    bound: Sequence[BoundListener],
    declared: Sequence[DeclaredListener],
    around: AgentDependencies,
    report: Mistakes,
) -> list[BoundListener]:
    """Return the listeners, with the tools of each agent, after a finding for each mistake."""
    places = {one.entry.name: one for one in declared}
    listeners = {item.listener.name: item for item in bound}
    return [
        item
        if item.agent is None
        else _AgentSetup(item, item.agent, places[item.listener.name], report).equip(listeners, around)
        for item in bound
    ]


class _AgentSetup:
    """Second pass over one agent, with all listeners known."""

    def __init__(
        self, item: BoundListener, agent: ReadyAgent, declared: DeclaredListener, report: Mistakes
    ) -> None:
        self._item, self._agent, self._declared, self._report = item, agent, declared, report

    def equip(self, listeners: Mapping[str, BoundListener], around: AgentDependencies) -> BoundListener:
        self._check_model("model", self._agent.model, around.models)
        if self._agent.summary is not None:
            self._check_model("agent", self._agent.summary, around.models)
        self._check_json("answer", self._agent.answer)
        self._check_room(around.limits.storage)
        if "quarantined" in self._declared.entry.trust:
            self._check_quarantine()
        tools = tuple(self._iter_tools(listeners))
        answers = convert_tool_name(local(str(vars(self._agent.answer)["__xml_name__"])))
        self._check_names(tools, answers)
        return replace(self._item, agent=replace(self._agent, tools=tools, answers=answers))

    def _check_model(self, key: str, name: str, models: LanguageModels | None) -> None:
        known = {} if models is None else models.models
        if name not in known:
            suggestion = "no llm: declares any" if models is None else did_you_mean(name, known)
            self._report.add_error(
                ConfigCode.NAME, self._declared.locate(key), f'unknown model "{name}"', suggestion
            )

    def _check_json(self, key: str, payload: type, *position: int) -> None:
        """Refuse a class without a JSON form: the model needs its schema."""
        by_schema = self._item.schema is not None and payload in self._item.listener.payloads
        if "__payload__" not in vars(payload) or by_schema:
            message = (
                f"{payload.__qualname__} is bound to a hand-written XSD and has no JSON Schema for a model"
            )
            self._report.add_error(
                ConfigCode.TOOL, self._declared.locate(key, *position), message, "declare it with @xmlify"
            )

    def _check_room(self, storage: int) -> None:
        """Refuse a history that does not fit into the storage of a thread."""
        needed = self._agent.history + RESERVE
        if needed > storage:
            message = f"a history of {self._agent.history} bytes needs limits.storage of {needed} or more"
            span = (
                self._declared.locate("agent")
                if self._declared.entry.agent
                else self._declared.locate("model")
            )
            self._report.add_error(ConfigCode.ROOM, span, message, f"it is {storage}")

    def _check_quarantine(self) -> None:
        """Refuse peers of a quarantined agent, and an answer class that can carry free text."""
        from agentserver.guards.lineage.reading import measure_channel  # needed by few

        if self._declared.entry.peers:
            message = "a quarantined agent answers its caller and speaks to nobody else"
            self._report.add_error(
                ConfigCode.QUARANTINE, self._declared.locate("peers"), message, "leave it out"
            )
        answer = self._agent.answer
        if "__payload__" not in vars(answer):
            return
        found = measure_channel(Codecs([answer]).of(answer))
        if not found.closed:
            message = f"{answer.__qualname__} can tell anything: {found}"
            hint = "use booleans, enumerations and numbers with bounds"
            self._report.add_error(ConfigCode.QUARANTINE, self._declared.locate("answer"), message, hint)

    def _iter_tools(self, listeners: Mapping[str, BoundListener]) -> Iterator[AgentTool]:
        for at, name in enumerate(self._declared.entry.peers):
            peer = listeners.get(name)
            if peer is None:
                continue  # one of the system's, or a mistake that is reported
            payloads = dict.fromkeys(Handoff if one is Task else one for one in peer.listener.payloads)
            for payload in payloads:
                if peer.schema is not None:
                    self._check_json("peers", payload, at)
                root = local(str(vars(payload).get("__xml_name__", payload.__name__)))
                tool = convert_tool_name(name if len(payloads) == 1 else f"{name}_{root}")
                yield AgentTool(tool, name, payload, peer.listener.description)

    def _check_names(self, tools: Sequence[AgentTool], answers: str) -> None:
        """Refuse two tools of the same name, and names that providers do not accept."""
        users: defaultdict[str, list[str]] = defaultdict(list)
        for tool in tools:
            users[tool.name].append(tool.listener)
        users[answers].append("its answer")
        for name, sources in users.items():
            if len(sources) > 1:
                message = f'{" and ".join(sources)} would be one tool of the model, "{name}"'
                self._report.add_error(
                    ConfigCode.TWICE, self._declared.locate("peers"), message, "rename one of them"
                )
            elif len(name) > LONGEST:
                message = f'the tool "{name}" has a longer name than models take: {LONGEST} characters'
                self._report.add_error(
                    ConfigCode.TOOL,
                    self._declared.locate("peers"),
                    message,
                    "shorten the name of the listener",
                )


def convert_tool_name(name: str) -> str:
    """Convert a listener name to the form that providers accept: without dots."""
    return OTHER.sub("_", name)


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
    """Derive the deadline of each agent: time for one attempt at each backend.

    A deadline that the configuration states is kept. There is a warning where it is too short.
    """
    places = {one.entry.name: one for one in declared}
    found = []
    for item in bound:
        place = places.get(item.listener.name)
        if place is None or not item.listener.agent:
            found.append(item)
        elif "deadline" not in place.entry.model_fields_set:
            found.append(_derive_deadline(item, models))
        else:
            _check(item, place, models, report)
            found.append(item)
    return found


def _derive_deadline(item: BoundListener, models: LanguageModels) -> BoundListener:
    """Set the deadline of a listener from its model, or from the slowest model without a ``model:``."""
    names = _list_models_of_agent(item) or tuple(models.models)
    longest = max((_find_seconds(name, models) for name in names), default=0.0)
    deadline = min(max(item.listener.deadline, longest), DAY)
    return replace(item, listener=replace(item.listener, deadline=deadline))


def _check(item: BoundListener, place: DeclaredListener, models: LanguageModels, report: Mistakes) -> None:
    """Warn of a deadline that is shorter than an attempt at a backend, or than all attempts together."""
    deadline = item.listener.deadline
    for name in _list_models_of_agent(item):
        needed, slowest = _find_seconds(name, models), _find_slowest(name, models)
        if slowest is not None and deadline < slowest.timeout:
            message = f"ends a request to {slowest.name}, which may take {slowest.timeout:g} s"
        elif deadline < needed:
            message = f"leaves no time to ask each backend of {name} once"
        else:
            continue
        hint = f"use {needed:g}s or leave it out, or lower timeout of the backends"
        report.add_warning(ConfigCode.DEADLINE, place.locate("deadline"), message, hint)


def _list_models_of_agent(item: BoundListener) -> tuple[str, ...]:
    """List the models that a prebuilt agent asks."""
    if item.agent is None:
        return ()
    return tuple(filter(None, (item.agent.model, item.agent.summary)))


def _collect_remote(name: str, models: LanguageModels) -> list[Backend]:
    choice, known = models.models.get(name), models.backends
    names: Mapping[str, None] = dict.fromkeys(() if choice is None else choice.backends)
    return [known[one] for one in names if one in known and known[one].provider != "scripted"]


def _find_seconds(name: str, models: LanguageModels) -> float:
    """Return the time for one attempt at each backend of a model; None for scripted models."""
    backends = _collect_remote(name, models)
    return sum(one.timeout for one in backends) + ROOM if backends else 0.0


def _find_slowest(name: str, models: LanguageModels) -> Backend | None:
    return max(_collect_remote(name, models), key=lambda one: one.timeout, default=None)
