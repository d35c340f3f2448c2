"""One script of reads and calls, run by each face of provenance: the guard of a server, ``Engine`` and ``Sleuth``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from agentserver import HandlerResponse, xmlify
from agentserver.guards.builtin import PeersGuard
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.provenance import Engine, Policy, Sleuth, TaintViolationError
from tests.core.paper import Ask, Note, Paper, listener, rules


@xmlify
@dataclass(frozen=True)
class Listing:
    names: list[str]


@xmlify
@dataclass(frozen=True)
class Page:
    text: str


@xmlify
@dataclass(frozen=True)
class Person:
    name: str
    address: str


@xmlify
@dataclass(frozen=True)
class State:
    ready: bool
    count: int


@xmlify
@dataclass(frozen=True)
class Send:
    to: str
    text: str


@xmlify
@dataclass(frozen=True)
class Run:
    command: str


class Read(NamedTuple):
    """An output of a source, which is asked for it."""

    source: str
    output: Any


class Act(NamedTuple):
    """A call of a sink."""

    sink: str
    call: Any


Step = Read | Act
READ = Ask("read")
DONE = Note("done")


def by_server(policy: Policy, query: str, steps: list[Step]) -> list[bool]:
    """Says of each call whether it ran, under the guard of a server."""
    ran: list[Act] = []
    left = iter(steps)

    def agent(_call: Any) -> Any:
        step = next(left, None)
        if step is None:
            return HandlerResponse.respond(DONE)
        return (
            HandlerResponse(READ, step.source)
            if isinstance(step, Read)
            else HandlerResponse(step.call, step.sink)
        )

    outputs = [step for step in steps if isinstance(step, Read)]
    sources, sinks = {step.source for step in outputs}, {step.sink for step in steps if isinstance(step, Act)}
    said = iter(outputs)

    def act(sink: str) -> Any:
        def handle(call: Any) -> Any:
            ran.append(Act(sink, call.payload))
            return HandlerResponse.respond(DONE)

        return handle

    def read(_call: Any) -> Any:
        return HandlerResponse.respond(next(said).output)

    listeners = [
        listener("agent", *sources, *sinks, payloads=(Ask, Note, Listing, Page, Person, State)),
        *(listener(name) for name in sources),
        *(listener(name, payloads=(Send, Run)) for name in sinks),
    ]
    payloads = (Listing, Page, Person, State, Send, Run, Ask, Note)
    made = rules(*listeners, payloads=payloads)
    guard = LineageGuard(TrustSettings(policy), made.blueprint.listeners, made.codecs)
    handlers = {"agent": agent, **dict.fromkeys(sources, read), **{name: act(name) for name in sinks}}
    paper = Paper(rules(*listeners, payloads=payloads, guards=[PeersGuard(), guard]), handlers)
    paper.say(Ask(query), "agent")
    paper.run()
    assert next(left, None) is None, "the script did not end"
    return [step in ran for step in steps if isinstance(step, Act)]


def by_engine(policy: Policy, query: str, steps: list[Step]) -> list[bool]:
    """The same by the engine of the library."""
    engine = Engine(policy)
    engine.set_query(query)
    ran: list[bool] = []
    for step in steps:
        name, call, output = _tool(step)
        try:
            engine.on_tool_call(name, call)
        except TaintViolationError:
            ran.append(False)
            continue
        engine.on_tool_result(name, output, arguments=call)
        ran.append(True)
    return [done for done, step in zip(ran, steps, strict=True) if isinstance(step, Act)]


def by_sleuth(policy: Policy, query: str, steps: list[Step]) -> list[bool]:
    """The same by tools that a ``Sleuth`` tracks."""
    sleuth = Sleuth(policy=policy)
    sleuth.reset(query)
    ran: list[bool] = []
    for step in steps:
        name, call, output = _tool(step)

        def tool(output: Any = output, **_arguments: Any) -> Any:
            return output

        tool.__signature__ = _signature(call)  # type: ignore[attr-defined]
        try:
            sleuth.track(tool, name)(**call)
        except TaintViolationError:
            ran.append(False)
            continue
        ran.append(True)
    return [done for done, step in zip(ran, steps, strict=True) if isinstance(step, Act)]


FACES = {"server": by_server, "engine": by_engine, "sleuth": by_sleuth}


def _tool(step: Step) -> tuple[str, dict[str, Any], Any]:
    if isinstance(step, Read):
        return step.source, _plain(READ), step.output
    return step.sink, _plain(step.call), DONE


def _plain(payload: Any) -> dict[str, Any]:
    return {field.name: getattr(payload, field.name) for field in fields(payload)}


def _signature(call: dict[str, Any]) -> Any:
    import inspect

    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in call])
