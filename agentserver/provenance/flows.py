"""Static analysis of flows: which source can reach which sink, by what path, and what guards the path.

``check`` and ``graph`` print it. It runs nothing and needs only the peers and the policy. A path is a possibility, not
a leak.
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
    """Shortest path from a source to a sink, with its guards."""

    path: tuple[str, ...]
    guards: tuple[str, ...]

    @property
    def source(self) -> str:
        """The listener at which untrusted text enters."""
        return self.path[0]

    @property
    def sink(self) -> str:
        """The listener that the text could drive."""
        return self.path[-1]

    def __str__(self) -> str:
        return f"{' → '.join(self.path)}   [{'; '.join(self.guards)}]"


@dataclass(frozen=True, slots=True)
class FlowReport:
    """Classes of all listeners with reasons, all flows, and errors in the declarations."""

    classes: tuple[tuple[str, ListenerClass], ...]
    flows: tuple[Flow, ...]
    errors: tuple[str, ...]

    def format_listener_lines(self) -> tuple[str, ...]:
        """Format a line for each listener, with its class and the reason."""
        return tuple(
            f"{name}: {describe_class(listener)} ({listener.why})" for name, listener in self.classes
        )

    def __str__(self) -> str:
        lines = ["Listeners", *(f"  {line}" for line in self.format_listener_lines()), "Flows"]
        lines += [f"  {flow}" for flow in self.flows] or ["  none"]
        lines += [f"error: {error}" for error in self.errors]
        return "\n".join(lines)


def describe_class(listener: ListenerClass) -> str:
    """Describe the class of a listener, such as ``source and sink``."""
    found = [kind for kind in ("source", "sink", "relay") if getattr(listener, kind)]
    return " and ".join(found) or "neither"


def find_flows(
    policy: Policy, peers: Mapping[str, Sequence[str]], capacities: Mapping[str, float] | None = None
) -> FlowReport:
    """Find every flow of an organism.

    Args:
        policy: the declared policy.
        peers: the receivers of each listener. Answers travel the same way back.
        capacities: bits per message of quarantined listeners (see ``quarantine``).
    """
    names = tuple(dict.fromkeys([*peers, *(name for receivers in peers.values() for name in receivers)]))
    classes = {name: policy.classify(name) for name in names}
    carried = _link_listeners(peers)
    found = []
    for source in (name for name in names if classes[name].source):
        before = _search_from(carried, source)
        for sink in (name for name in names if classes[name].sink):
            path = _collect_trace_path(before, source, sink)
            if path:
                found.append(Flow(path, _list_guards(policy, path, capacities or {})))
    errors = tuple(f"'{entry}' is declared and means no listener" for entry in policy.find_unused(names))
    return FlowReport(tuple(classes.items()), tuple(found), errors)


def find_reachable(
    policy: Policy, peers: Mapping[str, Sequence[str]], addressed: Collection[str] = ()
) -> frozenset[str]:
    """Find the listeners that untrusted words can reach, including the sources.

    A source that is not a listener is a principal, who may address every listener.

    Args:
        policy: the declared policy.
        peers: the receivers of each listener.
        addressed: the listeners that untrusted principals may address.
    """
    if any(entry in policy.find_unused(peers) for entry in policy.sources or ()):
        return frozenset(peers)
    carried = _link_listeners(peers)
    return frozenset(
        name
        for source in peers
        if source in addressed or policy.classify(source).source
        for name in _search_from(carried, source)
    )


def _link_listeners(peers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Link each listener to those it exchanges messages with: a message goes to a peer, its answer comes back."""
    ways: dict[str, list[str]] = {}
    for sender, receivers in peers.items():
        for receiver in receivers:
            ways.setdefault(sender, []).append(receiver)
            ways.setdefault(receiver, []).append(sender)
    return ways


def _search_from(ways: Mapping[str, Sequence[str]], start: str) -> dict[str, str]:
    before = {start: start}
    queue = deque([start])
    while queue:
        current = queue.popleft()
        for following in ways.get(current, ()):
            if following not in before:
                before[following] = current
                queue.append(following)
    return before


def _collect_trace_path(before: Mapping[str, str], source: str, sink: str) -> tuple[str, ...]:
    if sink not in before or sink == source:
        return ()
    path = [sink]
    while path[-1] != source:
        path.append(before[path[-1]])
    return tuple(reversed(path))


def _list_guards(policy: Policy, path: tuple[str, ...], capacities: Mapping[str, float]) -> tuple[str, ...]:
    sink = path[-1]
    guards = [f"mode {policy.mode_of(sink).value}"]
    if policy.plan is not PlanSource.OFF:
        guards.append(f"plan {policy.plan.value}")
    if policy.strict:
        guards.append("strict")
    content = policy.effect_of(Rule.CONTENT, sink)
    guards.append("content blocked" if content is Effect.BLOCK else f"content {content.value}ed")
    narrow = [(name, capacities[name]) for name in path[1:-1] if name in capacities]
    guards += [f"{name} quarantined to {bits:.1f} bits" for name, bits in narrow]
    return tuple(guards)
