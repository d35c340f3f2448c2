"""``mcp_server:`` in the YAML, and its errors."""

from __future__ import annotations

import pytest

from agentserver.core.state.principals import Trust
from tests.config.conftest import ONE


def test_hosts_are_strangers_who_reach_the_exposed_listeners(project):
    serving = project.load(ONE + "mcp_server: {expose: [greeter]}\n").serving
    assert (serving.expose, serving.trust) == (("greeter",), Trust.STRANGER)
    assert project.load(ONE).serving is None


def test_targets_of_strangers_must_exist_and_no_host_gives_orders(project):
    said = "mcp_server: {expose: [greeter], trust: %s}\n"
    found = {trust: project.load(ONE + said % trust).addressed for trust in ("stranger", "relay", "orders")}
    assert found == {"stranger": {"greeter"}, "relay": {"greeter"}, "orders": frozenset()}
    assert project.load(ONE).addressed == frozenset()


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (
            "{expose: [greter]}",
            '7: mcp_server.expose[0]: unknown listener "greter" (did you mean "greeter"?)',
        ),
        ("{expose: [greeter, greeter]}", '7: mcp_server.expose[1]: "greeter" is exposed already'),
        ("{expose: []}", "7: mcp_server.expose: must hold at least 1 entries"),
        ("{}", "7: mcp_server.expose: is missing"),
        ("", "7: mcp_server: must not be empty: remove the key, or set a value"),
        (
            "{expose: [greeter], trust: friend}",
            "7: mcp_server.trust: must be 'stranger', 'relay' or 'orders'",
        ),
        (
            "{expose: [greeter], trusts: relay}",
            '7: mcp_server.trusts: unknown key "trusts" (did you mean "trust"?)',
        ),
        (
            "{expose: [greeter], approvals: 'https://a.example/x'}",
            "7: mcp_server.approvals: is an address that begins with http:// or https:// and ends with /",
        ),
    ],
)
def test_an_error_is_reported_with_its_line(project, said, fault):
    (found,) = project.findings(ONE + f"mcp_server: {said}\n")
    assert found.startswith(f"organism.yaml:{fault}")
