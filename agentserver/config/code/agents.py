"""Agents that are made of a language model: ``model:``, ``prompt:``, ``answer:`` and ``agent:`` of a listener.

Owns what these keys refer to, and the names by which a model calls the listener's peers. Refuses to know what an agent
does.
"""

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
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.completion import LanguageModels
    from agentserver.config.findings import Mistakes
    from agentserver.config.organism import BoundListener
    from agentserver.config.validation import DeclaredListener
    from agentserver.core.blueprint import Limits

LONGEST = 64
"""Characters of the name of a tool."""

OTHER = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that the name of a tool may not hold."""

RESERVE = 14_000
"""Bytes of a thread's storage beside the history, for what an agent keeps of its present turn."""

_KEYS = ("prompt", "answer")


def check_keys(declared: Sequence[DeclaredListener], report: Mistakes) -> None:
    """Refuse the keys of an agent at a listener that has no model, and a handler beside a model."""
    for one in declared:
        entry = one.entry
        if entry.model is not None and (entry.handler is not None or "handler" in one.faulty):
            report.error(
                ConfigCode.AGENT, one.where("model"), "a listener has a handler or a model, not both"
            )
        if entry.model is not None:
            continue
        for key in _KEYS:
            if getattr(entry, key) is not None:
                report.error(ConfigCode.AGENT, one.where(key), "belongs to a listener with a model")
        if entry.agent is not None and entry.agent.model_fields_set:
            report.error(
                ConfigCode.AGENT,
                one.where("agent"),
                "bounds belong to a listener with a model",
                "write agent: true",
            )


class Around(NamedTuple):
    """The parts of the organism that an agent depends on."""

    models: LanguageModels | None
    limits: Limits


def equipped(
    bound: Sequence[BoundListener], declared: Sequence[DeclaredListener], around: Around, report: Mistakes
) -> list[BoundListener]:
    """The listeners, each agent with the tools that its peers are, after a finding for each mistake."""
    places = {one.entry.name: one for one in declared}
    listeners = {item.listener.name: item for item in bound}
    return [
        item
        if item.agent is None
        else _Equipping(item, item.agent, places[item.listener.name], report).equipped(listeners, around)
        for item in bound
    ]


class _Equipping:
    """The second look at one agent, when all listeners are known."""

    def __init__(
        self, item: BoundListener, agent: ReadyAgent, declared: DeclaredListener, report: Mistakes
    ) -> None:
        self._item, self._agent, self._declared, self._report = item, agent, declared, report

    def equipped(self, listeners: Mapping[str, BoundListener], around: Around) -> BoundListener:
        self._check_model("model", self._agent.model, around.models)
        if self._agent.summary is not None:
            self._check_model("agent", self._agent.summary, around.models)
        self._check_json("answer", self._agent.answer)
        self._check_room(around.limits.storage)
        if "quarantined" in self._declared.entry.trust:
            self._check_quarantine()
        tools = tuple(self._tools(listeners))
        answers = tool_name(local(str(vars(self._agent.answer)["__xml_name__"])))
        self._check_names(tools, answers)
        return replace(self._item, agent=replace(self._agent, tools=tools, answers=answers))

    def _check_model(self, key: str, name: str, models: LanguageModels | None) -> None:
        known = {} if models is None else models.models
        if name not in known:
            told = "no llm: declares any" if models is None else did_you_mean(name, known)
            self._report.error(ConfigCode.NAME, self._declared.where(key), f'unknown model "{name}"', told)

    def _check_json(self, key: str, payload: type, *more: int) -> None:
        """Refuse a class that has no JSON form: a model could not be told what it takes."""
        by_schema = self._item.schema is not None and payload in self._item.listener.payloads
        if "__payload__" not in vars(payload) or by_schema:
            told = f"{payload.__qualname__} is bound to a hand-written XSD and has no JSON Schema for a model"
            self._report.error(
                ConfigCode.TOOL, self._declared.where(key, *more), told, "declare it with @xmlify"
            )

    def _check_room(self, storage: int) -> None:
        """Refuse a history for which a thread has no room."""
        needed = self._agent.history + RESERVE
        if needed > storage:
            told = f"a history of {self._agent.history} bytes needs limits.storage of {needed} or more"
            where = (
                self._declared.where("agent") if self._declared.entry.agent else self._declared.where("model")
            )
            self._report.error(ConfigCode.ROOM, where, told, f"it is {storage}")

    def _check_quarantine(self) -> None:
        """Refuse peers of a quarantined agent, and an answer by which it could tell anything."""
        from agentserver.guards.lineage.reading import channel  # needed by few

        if self._declared.entry.peers:
            told = "a quarantined agent answers its caller and speaks to nobody else"
            self._report.error(ConfigCode.QUARANTINE, self._declared.where("peers"), told, "leave it out")
        answer = self._agent.answer
        if "__payload__" not in vars(answer):
            return
        found = channel(Codecs([answer]).of(answer))
        if not found.closed:
            told = f"{answer.__qualname__} can tell anything: {found}"
            hint = "use booleans, enumerations and numbers with bounds"
            self._report.error(ConfigCode.QUARANTINE, self._declared.where("answer"), told, hint)

    def _tools(self, listeners: Mapping[str, BoundListener]) -> Iterator[AgentTool]:
        for at, name in enumerate(self._declared.entry.peers):
            peer = listeners.get(name)
            if peer is None:
                continue  # one of the system's, or a mistake that is reported
            payloads = dict.fromkeys(Handoff if one is Task else one for one in peer.listener.payloads)
            for payload in payloads:
                if peer.schema is not None:
                    self._check_json("peers", payload, at)
                root = local(str(vars(payload).get("__xml_name__", payload.__name__)))
                tool = tool_name(name if len(payloads) == 1 else f"{name}_{root}")
                yield AgentTool(tool, name, payload, peer.listener.description)

    def _check_names(self, tools: Sequence[AgentTool], answers: str) -> None:
        """Refuse a name that two tools have, and one that no provider takes."""
        users: defaultdict[str, list[str]] = defaultdict(list)
        for tool in tools:
            users[tool.name].append(tool.listener)
        users[answers].append("its answer")
        for name, taken in users.items():
            if len(taken) > 1:
                told = f'{" and ".join(taken)} would be one tool of the model, "{name}"'
                self._report.error(
                    ConfigCode.TWICE, self._declared.where("peers"), told, "rename one of them"
                )
            elif len(name) > LONGEST:
                told = f'the tool "{name}" has a longer name than models take: {LONGEST} characters'
                self._report.error(
                    ConfigCode.TOOL, self._declared.where("peers"), told, "shorten the name of the listener"
                )


def tool_name(name: str) -> str:
    """A name as providers take it: without dots."""
    return OTHER.sub("_", name)
