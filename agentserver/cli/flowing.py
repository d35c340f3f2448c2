"""What an organism's provenance comes to before anything runs: classes, channels, ways from source to sink.

Owns how ``check`` and ``graph`` tell it. The answers are the provenance package's.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from agentserver.cli.drawing import Graph
from agentserver.contract import SYSTEM_PAYLOADS
from agentserver.core.blueprint import Listener
from agentserver.guards.lineage_reading import channel
from agentserver.provenance.flows import flows, kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.config import Organism
    from agentserver.core.payload.codec import Codecs
    from agentserver.provenance.flows import Report
    from agentserver.provenance.quarantine import Channel

NONE = "provenance: none declared, so nobody asks where a value comes from"


def told(organism: Organism, codecs: Codecs, *, flows: bool) -> Iterator[str]:
    """Lines about provenance."""
    if organism.provenance is None:
        yield NONE
        return
    report = _report(organism, codecs)
    yield f"provenance: {organism.provenance.policy.mode}"
    yield from (f"  {line}" for line in report.told())
    for name in sorted(organism.provenance.quarantined):
        for payload, found in _channels(organism, codecs, name):
            refused = "" if found.closed else ", so it may not be sent"
            yield f"  {name} is quarantined: {payload} tells {found}{refused}"
    if flows:
        yield "flows:"
        yield from (f"  {flow}" for flow in report.flows)
        if not report.flows:
            yield "  none"


def graph(organism: Organism, codecs: Codecs) -> Graph:
    """The ways from sources to sinks as a graph, with what stands between as notes."""
    about = "whose words can come to drive what has consequences"
    if organism.provenance is None:
        return Graph(organism.name, (Listener("no provenance", (), NONE),), about, (NONE,))
    report = _report(organism, codecs)
    classes = dict(report.classes)
    steps = {pair for flow in report.flows for pair in zip(flow.path, flow.path[1:], strict=False)}
    part = {name: f"{name} ({kinds(classes[name])})" for pair in steps for name in pair}
    drawn = tuple(
        replace(
            bound.listener,
            name=part[bound.listener.name],
            peers=frozenset(part[to] for sender, to in steps if sender == bound.listener.name),
        )
        for bound in organism.listeners
        if bound.listener.name in part
    )
    notes = tuple(map(str, report.flows)) or ("no way leads from a source to a sink",)
    return Graph(organism.name, drawn or (Listener("nothing", (), notes[0]),), about, notes)


def _report(organism: Organism, codecs: Codecs) -> Report:
    assert organism.provenance is not None
    names = {bound.listener.name for bound in organism.listeners}
    peers = {bound.listener.name: sorted(bound.listener.peers & names) for bound in organism.listeners}
    capacities = {}
    for name in organism.provenance.quarantined:
        bits = [found.bits for _, found in _channels(organism, codecs, name) if found.bits < inf]
        capacities[name] = max(bits, default=0.0)
    return flows(organism.provenance.policy, peers, capacities)


def _channels(organism: Organism, codecs: Codecs, name: str) -> Iterator[tuple[str, Channel]]:
    """What a listener may answer with, as far as its code can name it, and how much each can tell."""
    for bound in organism.listeners:
        if bound.listener.name == name:
            own = {*bound.listener.payloads, *SYSTEM_PAYLOADS}
            for payload in bound.discovered:
                if payload not in own:
                    yield payload.__name__, channel(codecs.of(payload))
