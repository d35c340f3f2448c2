"""A small way to write scenarios at a declared desk: the request, the texts read, the calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentserver.provenance import Call, Ledger, Mode, Observation, Policy, judge, leaves
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import ArgumentRule, Rule, SinkRule
from agentserver.provenance.verdict import Verdict


def sink(name: str, **roles: Role) -> SinkRule:
    """A consequential listener with the roles of its arguments."""
    return SinkRule(name, tuple(ArgumentRule(argument, role) for argument, role in roles.items()))


_TO, _CHOICE, _SAID = Role.DESTINATION, Role.SELECTOR, Role.PAYLOAD

SOURCES = ("fetch_*", "search_*", "read_*", "get_*", "list_*")
SINKS = (
    sink("send_email", to=_TO, cc=_TO, bcc=_TO, recipients=_TO, subject=_SAID, body=_SAID),
    sink("reply_mail", to=_TO, body=_SAID),
    sink("post_message", channel=_TO, body=_SAID),
    sink("create_file", filename=_SAID, content=_SAID),
    sink("delete_file", file_id=_CHOICE, filename=_CHOICE),
    sink("delete_all"),
    sink("update_password", password=_CHOICE),
    sink("run_command", command=_CHOICE),
    sink("delete_record", record=_CHOICE),
)


def desk(**changes: Any) -> Policy:
    """An enforcing policy that declares what reads and what acts at a desk; no field and no destination."""
    return replace(Policy(mode=Mode.ENFORCE, sources=SOURCES, sinks=SINKS), **changes)


class Scenario:
    """One conversation under one policy, at one time: the policy of the desk and no time when none is given."""

    def __init__(self, policy: Policy | None = None, query: str = "", now: float = 0.0) -> None:
        self.policy, self.now = policy or desk(), now
        self.ledger = Ledger().ask(query) if query else Ledger()
        self.step = 0

    def read(self, source: str, output: Any, **arguments: Any) -> Scenario:
        self.step += 1
        seen = Observation(
            source, leaves(output), self.step, self.now, arguments=leaves(arguments), unexposed=True
        )
        self.ledger = self.ledger.observe(self.policy, seen)
        return self

    def call(self, sink: str, *, exposed: bool = True, **arguments: Any) -> Verdict:
        self.step += 1
        return judge(
            self.ledger, self.policy, Call(sink, leaves(arguments), self.step, self.now, exposed=exposed)
        )

    def rules(self, sink: str, *, exposed: bool = True, **arguments: Any) -> set[Rule]:
        return {finding.rule for finding in self.call(sink, exposed=exposed, **arguments).findings}
