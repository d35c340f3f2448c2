"""``hooks:`` in the YAML: values, and each mistake with its line, path and a likely correction."""

from __future__ import annotations

import pytest

from tests.config.conftest import CODE, ONE

HOOKS = """
http: {}
hooks:
  - {name: github, listener: greeter, signature: github, secret: "${SECRET}", fields: {name: issue.user}}
"""


@pytest.fixture
def desk(project):
    project.environ["SECRET"] = "canary-7781"
    return project


def test_a_hook_is_a_frozen_value_without_its_secret_in_sight(desk):
    organism = desk.load(ONE + HOOKS)
    (hook,) = organism.hooks
    assert (hook.name, hook.listener, hook.principal) == ("github", "greeter", "hook-github")
    assert hook.root.endswith("}Greeting")
    assert hook.secret == "canary-7781"
    assert "canary" not in repr(organism)
    assert organism.addressed == {"greeter"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"${SECRET}"', "open-secret", "hooks[0].secret: a secret is never written into the file"),
        ("listener: greeter", "listener: greter", 'hooks[0].listener: unknown listener "greter" (did you mean "greeter"?)'),
        ("{name: issue.user}", "{nam: issue.user}", 'hooks[0].fields.nam: the payload has no field "nam" (did you mean "name"?)'),
        ("{name: issue.user}", "{name: .user}", "hooks[0].fields.name: is a path of keys"),
        ("signature: github", "signature: gitlab", "hooks[0].signature"),
        ("signature: github, ", "", "hooks[0].signature: is missing"),
        ("http: {}\n", "", "hooks: needs a door"),
        ("signature: github", "signature: github, payload: listeners.greet.Reply", "greeter does not accept Reply (Greeting)"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place(desk, old, new, told):
    findings = desk.findings(ONE + HOOKS.replace(old, new))
    assert any(told in finding for finding in findings), findings


def test_a_name_is_used_once_and_a_payload_chosen_where_several_are_accepted(desk):
    twice = HOOKS + HOOKS.rpartition("hooks:\n")[2]
    assert any('hooks[1].name: duplicate name "github"' in each for each in desk.findings(ONE + twice))
    desk.write("listeners/greet.py", CODE.replace("payload: Greeting,", "payload: Greeting | Reply,"))
    findings = desk.findings(ONE + HOOKS)
    assert any("hooks[0].payload: is missing: greeter accepts Greeting, Reply" in each for each in findings)


INBOX = """
inbox:
  - {name: orders, folder: inbox/orders, listener: greeter, fields: {name: order.buyer}, largest: 2MB, settle: 5s}
"""


def test_an_inbox_is_a_frozen_value_of_a_stranger(project):
    organism = project.load(ONE + INBOX)
    (inbox,) = organism.inboxes
    assert (inbox.name, inbox.folder, inbox.principal) == ("orders", "inbox/orders", "inbox-orders")
    assert (inbox.largest, inbox.settle, inbox.format) == (2_000_000, 5.0, "json")
    assert inbox.root.endswith("}Greeting")
    assert organism.addressed == {"greeter"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("listener: greeter", "listener: greter", 'inbox[0].listener: unknown listener "greter" (did you mean "greeter"?)'),
        ("{name: order.buyer}", "{nam: order.buyer}", 'inbox[0].fields.nam: the payload has no field "nam" (did you mean "name"?)'),
        ("folder: inbox/orders, ", "", "inbox[0].folder: is missing"),
        ("inbox/orders", "../orders", "inbox[0].folder"),
        ("largest: 2MB", "largest: 2GB", "inbox[0].largest"),
        ("settle: 5s}", "settle: 5s}\n  - {name: more, folder: ./inbox/orders/, listener: greeter}", "inbox[1].folder: is the folder of orders too"),
        ("settle: 5s}", "settle: 5s}\n  - {name: orders, folder: other, listener: greeter}", 'inbox[1].name: duplicate name "orders"'),
    ],
)  # fmt: skip
def test_each_mistake_in_an_inbox_has_its_place(project, old, new, told):
    findings = project.findings(ONE + INBOX.replace(old, new))
    assert any(told in finding for finding in findings), findings
