from __future__ import annotations

from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.flows import find_flows
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule

PEERS = {
    "planner": ["reader", "writer"],
    "reader": ["fetch"],
    "writer": ["send_email"],
    "lonely": [],
}
QUIET = ("planner", "reader", "writer", "lonely")


def test_the_shortest_path_from_source_to_sink_is_reported_with_its_guards() -> None:
    policy = Policy(mode=Mode.ENFORCE, sources=("fetch",), sinks=(SinkRule("send_email"),), inert=QUIET)
    report = find_flows(policy, PEERS, {"reader": 3.0})
    [flow] = report.flows
    assert flow.path == ("fetch", "reader", "planner", "writer", "send_email")
    assert (flow.source, flow.sink) == ("fetch", "send_email")
    assert "reader quarantined to 3.0 bits" in str(flow)
    assert "mode enforce; plan optional; content reported" in str(flow)
    assert not report.errors


def test_unconnected_listeners_have_no_flow() -> None:
    policy = Policy(
        sources=("lonely",),
        sinks=(SinkRule("send_email"),),
        inert=("planner", "reader", "writer", "fetch"),
        plan=PlanSource.OFF,
        strict=True,
    )
    report = find_flows(policy, PEERS)
    assert not report.flows
    assert "none" in str(report)


def test_a_declared_name_that_means_nobody_is_an_error() -> None:
    report = find_flows(Policy(sources=("fetsh",), sinks=(SinkRule("send_email"),)), PEERS)
    assert report.errors == ("'fetsh' is declared and means no listener",)
    assert "error: 'fetsh'" in str(report)


def test_classes_are_printed_with_their_reason() -> None:
    policy = Policy(strict=True, sources=("fetch",), relays=("planner",), trusted=("lonely",))
    report = find_flows(policy, PEERS)
    assert "fetch: source (source by 'fetch')" in str(report)
    assert "planner: relay (inert or a relay by 'planner')" in str(report)
    assert "lonely: neither (declared trusted by 'lonely')" in str(report)
    assert "writer: source and sink (nothing is declared of it)" in str(report)
    assert "strict" in str(report)
