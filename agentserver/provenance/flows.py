"""Possible flows: which source can reach which sink, through whom, and what stands between.

Owns the static answer that ``check`` and ``graph`` print. Refuses to run anything: it takes who may send to
whom and the policy. A path is a possibility, not a leak; what guards it is told with it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.provenance.policy.declarations import Effect, PlanSource, Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from agentserver.provenance.policy.declarations import ListenerClass, Policy


@dataclass(frozen=True, slots=True)
class Flow:
    """One way from a source to a sink, the shortest."""

    path: tuple[str, ...]
    guards: tuple[str, ...]

    @property
    def source(self) -> str:
        """The listener at which untrusted text enters."""
        return self.path[0]

    @property
    def sink(self) -> str:
        """The listener that it could drive."""
        return self.path[-1]

    def __str__(self) -> str:
        return f"{' → '.join(self.path)}   [{'; '.join(self.guards)}]"


@dataclass(frozen=True, slots=True)
class FlowReport:
    """Every listener's class with the reason for it, every flow, and what is wrong with the declarations."""

    classes: tuple[tuple[str, ListenerClass], ...]
    flows: tuple[Flow, ...]
    errors: tuple[str, ...]

    def told(self) -> tuple[str, ...]:
        """A line for each listener: its class and why."""
        return tuple(f"{name}: {kinds(listener)} ({listener.why})" for name, listener in self.classes)

    def __str__(self) -> str:
        lines = ["Listeners", *(f"  {line}" for line in self.told()), "Flows"]
        lines += [f"  {flow}" for flow in self.flows] or ["  none"]
        lines += [f"error: {error}" for error in self.errors]
        return "\n".join(lines)


def kinds(listener: ListenerClass) -> str:
    """A class in words."""
    found = [kind for kind in ("source", "sink", "relay") if getattr(listener, kind)]
    return " and ".join(found) or "neither"


def flows(
    policy: Policy, peers: Mapping[str, Sequence[str]], capacities: Mapping[str, float] | None = None
) -> FlowReport:
    """The report over an organism.

    Args:
        policy: what is declared.
        peers: for each listener whom it may send to. Answers travel the same way back.
        capacities: bits a message of quarantined listeners (see ``quarantine``).
    """
    names = tuple(dict.fromkeys([*peers, *(name for sent in peers.values() for name in sent)]))
    classes = {name: policy.classify(name) for name in names}
    carried = _carried(peers)
    found = []
    for source in (name for name in names if classes[name].source):
        before = _reached(carried, source)
        for sink in (name for name in names if classes[name].sink):
            path = _path(before, source, sink)
            if path:
                found.append(Flow(path, _guards(policy, path, capacities or {})))
    errors = tuple(f"'{entry}' is declared and means no listener" for entry in policy.unused(names))
    return FlowReport(tuple(classes.items()), tuple(found), errors)


def entered(
    policy: Policy, peers: Mapping[str, Sequence[str]], addressed: Collection[str] = ()
) -> frozenset[str]:
    """The listeners that words of a source or of a stranger can reach, sources among them.

    A source that is no listener is a principal, who may address every listener.

    Args:
        policy: what is declared.
        peers: for each listener whom it may send to.
        addressed: the listeners that principals may address whose words are no orders.
    """
    if any(entry in policy.unused(peers) for entry in policy.sources or ()):
        return frozenset(peers)
    carried = _carried(peers)
    return frozenset(
        name
        for source in peers
        if source in addressed or policy.classify(source).source
        for name in _reached(carried, source)
    )


def _carried(peers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The listeners whose words can enter each: a message goes to a peer, its answer comes back."""
    ways: dict[str, list[str]] = {}
    for sender, sent in peers.items():
        for receiver in sent:
            ways.setdefault(sender, []).append(receiver)
            ways.setdefault(receiver, []).append(sender)
    return ways


def _reached(ways: Mapping[str, Sequence[str]], start: str) -> dict[str, str]:
    before = {start: start}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for there in ways.get(here, ()):
            if there not in before:
                before[there] = here
                waiting.append(there)
    return before


def _path(before: Mapping[str, str], source: str, sink: str) -> tuple[str, ...]:
    if sink not in before or sink == source:
        return ()
    path = [sink]
    while path[-1] != source:
        path.append(before[path[-1]])
    return tuple(reversed(path))


def _guards(policy: Policy, path: tuple[str, ...], capacities: Mapping[str, float]) -> tuple[str, ...]:
    sink = path[-1]
    guards = [f"mode {policy.mode_of(sink).value}"]
    if policy.plan is not PlanSource.OFF:
        guards.append(f"plan {policy.plan.value}")
    if policy.strict:
        guards.append("strict")
    content = policy.effect(Rule.CONTENT, sink)
    guards.append("content blocked" if content is Effect.BLOCK else f"content {content.value}ed")
    narrow = [(name, capacities[name]) for name in path[1:-1] if name in capacities]
    guards += [f"{name} quarantined to {bits:.1f} bits" for name, bits in narrow]
    return tuple(guards)
