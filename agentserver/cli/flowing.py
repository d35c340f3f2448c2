"""The meaning of an organism's provenance before anything runs: classes, channels, ways from source to sink.

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
    from agentserver.config.organism import Provenance
    from agentserver.core.payload.codec import Codecs
    from agentserver.provenance.flows import Report
    from agentserver.provenance.quarantine import Channel


def told(organism: Organism, provenance: Provenance, codecs: Codecs, *, flows: bool) -> Iterator[str]:
    """Lines about provenance."""
    report = _report(organism, provenance, codecs)
    yield f"provenance: {provenance.policy.mode}"
    yield from (f"  {line}" for line in report.told())
    for name in sorted(provenance.quarantined):
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
        return _empty(
            organism.name, about, "no provenance is declared, so nobody asks where a value comes from"
        )
    report = _report(organism, organism.provenance, codecs)
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
    if not drawn:
        return _empty(organism.name, about, "no way leads from a source to a sink")
    return Graph(organism.name, drawn, about, tuple(map(str, report.flows)))


def _empty(name: str, about: str, why: str) -> Graph:
    return Graph(name, (Listener("none", (), why),), about, (why,))


def _report(organism: Organism, provenance: Provenance, codecs: Codecs) -> Report:
    names = {bound.listener.name for bound in organism.listeners}
    peers = {bound.listener.name: sorted(bound.listener.peers & names) for bound in organism.listeners}
    capacities = {}
    for name in provenance.quarantined:
        bits = [found.bits for _, found in _channels(organism, codecs, name) if found.bits < inf]
        capacities[name] = max(bits, default=0.0)
    return flows(provenance.policy, peers, capacities)


def _channels(organism: Organism, codecs: Codecs, name: str) -> Iterator[tuple[str, Channel]]:
    """The answers that a listener may give, as far as its code can name them, and the amount that each can tell."""
    bound = next(each for each in organism.listeners if each.listener.name == name)
    for payload in bound.discovered:
        if payload not in (*bound.listener.payloads, *SYSTEM_PAYLOADS):
            yield payload.__name__, channel(codecs.of(payload))
