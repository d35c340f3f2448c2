"""``notify:`` in the YAML: values, and each mistake with its line, path and a likely correction."""

from __future__ import annotations

import base64

import pytest

from tests.config.conftest import ONE

NOTIFY = """
notify:
  - {name: oncall, webhook: "https://desk.example/approvals", secret: "${SECRET}", listeners: [greeter]}
  - {name: boss, command: [page, "--stdin"], env: [PAGER], after: 15m}
"""


@pytest.fixture
def desk(project):
    project.environ |= {"SECRET": f"whsec_{base64.b64encode(b'k' * 32).decode()}", "SHORT": "whsec_c2hvcnQ="}
    return project


def test_a_notifier_is_a_frozen_value_without_its_secret_in_sight(desk):
    organism = desk.load(ONE + NOTIFY)
    webhook, command = organism.notifiers
    assert (webhook.name, webhook.key, webhook.listeners) == ("oncall", b"k" * 32, ("greeter",))
    assert (command.command, command.env, command.after) == (("page", "--stdin"), ("PAGER",), 900.0)
    assert "desk.example" not in repr(organism.notifiers)
    assert "kkkk" not in repr(organism.notifiers)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"${SECRET}"', "open-secret", "notify[0].secret: a secret is never written into the file"),
        ("${SECRET}", "${SHORT}", "notify[0].secret: is no secret of Standard Webhooks"),
        ("[greeter]", "[greter]", 'notify[0].listeners[0]: unknown listener "greter" (did you mean "greeter"?)'),
        ("https://desk", "http://desk", "notify[0].webhook: needs TLS"),
        ("https://desk.example", "https://a:b@desk.example", "notify[0].webhook: is no address"),
        ('secret: "${SECRET}", ', "", "notify[0]: a webhook needs its secret"),
        ('command: [page, "--stdin"], env: [PAGER], ', "", "notify[1]: needs either command or webhook"),
        ("name: boss", "name: oncall", 'notify[1].name: duplicate name "oncall"'),
        ("after: 15m", "after: soon", "notify[1].after"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place(desk, old, new, told):
    findings = desk.findings(ONE + NOTIFY.replace(old, new))
    assert any(told in finding for finding in findings), findings
    assert not any("whsec" in finding and "Standard" not in finding for finding in findings)
