"""``identity:`` in the YAML: values, and each mistake with its path and a likely correction."""

from __future__ import annotations

import pytest

from agentserver.core.state.principals import Trust
from agentserver.ports.identity import ClaimRule, IdentityProvider
from tests.config.conftest import ONE

IDENTITY = """
http: {}
identity:
  - issuer: https://login.example/realms/desk
    audience: https://desk.example
    algorithms: [RS256, ES256]
    skew: 10s
    stale: 2h
    rules:
      - when: {groups: operators, email_verified: true}
        role: operator
        trust: orders
        may: all
      - when: {groups: [desk, sales]}
        may: [greeter]
"""


def test_a_provider_is_a_frozen_value_with_its_rules_in_order(project):
    assert project.load(ONE + IDENTITY).identity == (
        IdentityProvider(
            "https://login.example/realms/desk",
            ("https://desk.example",),
            ("RS256", "ES256"),
            (
                ClaimRule(
                    {"groups": ("operators",), "email_verified": (True,)}, "operator", Trust.ORDERS, None
                ),
                ClaimRule({"groups": ("desk", "sales")}, may=("greeter",)),
            ),
            10.0,
            7200.0,
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("issuer: https", "issuer: http", 'identity[0].issuer: keys would be fetched unencrypted ("issuer: https://login.example/realms/desk")'),
        ("https://login.example/realms/desk", "http://127.0.0.1:9", "identity[0].issuer: keys would be fetched unencrypted"),
        ("https://login.example", "https://me@login.example", "identity[0].issuer: is an address"),
        ("RS256, ", "none, ", "identity[0].algorithms[0]"),
        ("RS256, ", "HS256, ", "identity[0].algorithms[0]"),
        ("[RS256, ES256]", "[]", "identity[0].algorithms"),
        ("    audience: https://desk.example\n", "", "identity[0].audience: is missing"),
        ("audience: https://desk.example", "audience: []", "identity[0].audience"),
        ("skew: 10s", "skew: 1h", "identity[0].skew"),
        ("may: [greeter]", "may: [greter]", 'identity[0].rules[1].may[0]: unknown listener "greter" (did you mean "greeter"?)'),
        ("role: operator", "role: worker", "identity[0].rules[0].role"),
        ("{groups: [desk, sales]}", "{}", "identity[0].rules[1].when"),
        ("{groups: [desk, sales]}", "{groups: []}", "identity[0].rules[1].when.groups"),
        ("role: operator", "rolle: operator", "identity[0].rules[0].rolle"),
        ("trust: orders", "rate: often", "identity[0].rules[0].rate: is a number and /s, /m or /h"),
        ("http: {}\n", "", "identity: needs a door"),
        ("    rules:\n", "    sign_in: {client: desk, scope: groups}\n    rules:\n", "identity[0].sign_in.scope: has no openid"),
        ("    rules:\n", "    quotas: [{tenant: acme}]\n    rules:\n", "identity[0].quotas[0]: needs rate or budget"),
        ("    rules:\n", "    quotas: [{rate: 1/s}]\n    rules:\n", "identity[0].quotas[0]: is for a tenant or for a group"),
        ("    rules:\n", "    quotas: [{tenant: a, budget: {tokens: 1, window: 40d}}]\n    rules:\n", "identity[0].quotas[0].budget.window"),
        ("    rules:\n", "    exchange: {client: a, secret: b, resources: [ftp://x]}\n    rules:\n", "identity[0].exchange.resources[0]"),
        ("http: {}\n", "http: {}\nmcp: [{name: far, url: 'https://far.example/mcp', on_behalf: true, tools: [{name: a, trust: sink}]}]\n", "mcp[0].on_behalf: no identity provider exchanges tokens for this server"),
        ("role: operator", "tenant: Acme", "identity[0].rules[0].tenant: is at most 32 small letters"),
        ("role: operator", "tenant: acme\n        tenant_claim: org", "identity[0].rules[0]: has one of tenant and tenant_claim"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place(project, old, new, told):
    assert old in IDENTITY
    findings = project.findings(ONE + IDENTITY.replace(old, new))
    assert any(told in finding for finding in findings), findings


def test_an_issuer_is_there_once(project):
    twice = IDENTITY + IDENTITY.partition("identity:\n")[2]
    assert any(
        "identity[1].issuer: this issuer is there already" in each for each in project.findings(ONE + twice)
    )


def test_a_provider_of_tests_may_be_on_loopback_without_tls(project):
    local = IDENTITY.replace("https://login.example/realms/desk", "http://127.0.0.1:9\n    loopback: true")
    assert project.load(ONE + local).identity[0].loopback
