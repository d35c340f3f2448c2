"""Listeners that want an approval, and how long a person may take."""

from __future__ import annotations

import pytest

from agentserver.core.blueprint import ApprovalRule, Limits
from agentserver.payload.conditions import Comparison, FieldCondition
from agentserver.rulebook import build_rules
from tests.config.conftest import ONE


def test_a_listener_wants_one_or_not(project):
    (plain,) = project.load(ONE).listeners
    assert plain.listener.approval is None
    (guarded,) = project.load(ONE + "    approval: required\n").listeners
    assert guarded.listener.approval == ApprovalRule()


def test_the_guard_asks_about_exactly_those_listeners(project):
    organism = project.load(
        ONE + "    approval: required\n" + ONE.partition("listeners:\n")[2].replace("greeter", "other")
    )
    guard = next(guard for guard in build_rules(organism).guards if guard.name == "approval")
    assert guard._listeners == {"greeter": {}}


TILL = """
name: demo
listeners:
  - name: till
    handler: listeners.till.pay
    description: Pays.
    approval:
      {approval}
"""

PAY = """
from __future__ import annotations
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal
from agentserver import HandlerMetadata, HandlerResponse, xmlify

@dataclass
class Line:
    amount: Decimal

@xmlify
@dataclass
class Pay:
    amount: Decimal
    currency: Literal["EUR", "USD"]
    to: str
    lines: list[Line] = field(default_factory=list)

async def pay(payload: Pay, metadata: HandlerMetadata) -> HandlerResponse | None:
    return None
"""


def test_a_rule_says_which_messages_wait_for_which_role_and_how_long(project):
    project.write("listeners/till.py", PAY)
    text = "{when: {amount: {over: 500, unit: {currency: EUR}}, to: {not_in: [rent]}}, approvers: others, within: 4h}"
    (till,) = project.load(TILL.replace("{approval}", text)).listeners
    amount = FieldCondition("amount", ((Comparison.OVER, 500),), unit=("currency", "EUR"))
    assert till.listener.approval == ApprovalRule(
        (amount, FieldCondition("to", outside=("rent",))), "others", 14_400.0
    )


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        ("{when: {amunt: {over: 5}}}", "when", "Pay has no field amunt (amount)"),
        ("{when: {lines: {over: 5}}}", "when", "Pay: lines is a record, not one value (lines.amount)"),
        ("{when: {amount.value: {over: 5}}}", "when", "Pay: amount is one value and has no field value"),
        ("{when: {amount: {over: lots}}}", "when", "amount.over: lots is not a value of the type Decimal"),
        ("{when: {currency: {in: [EURO]}}}", "when", "currency.in: the field never has the value EURO (EUR)"),
        ("{when: {currency: {over: 5}}}", "when", "currency has no order, so that nothing is over 5 (use in)"),
        ("{when: {amount: {over: 5, unit: {curency: EUR}}}}", "when", "Pay has no field curency (currency)"),
        ("{when: {amount: {over: 5, unit: {currency: CHF}}}}", "when", "unit.currency: the field never has the value CHF"),
        ("{when: {amount: {}}}", "when.amount", "compares nothing"),
        ("{when: {amount: {above: 5}}}", "when.amount.above", "unknown key"),
        ("{when: {currency: {sum: {over: 5, within: 1h}}}}", "when", "currency is no number, so that it has no sum"),
        ("{when: {amount: {sum: {over: 5}}}}", "when.amount.sum.within", "missing"),
        ("{when: {amount: {sum: {over: lots, within: 1h}}}}", "when.amount", "sum.over: lots is no amount, such as 500"),
        ("{when: {amount: {sum: {over: 5, within: 31d}}}}", "when", "longer than the retention of finished conversations (at most 2592000s)"),
        ("{when: {}}", "when", "at least 1"),
        ("{when: {amount: {over: 5}}, otherwise: allow}", "otherwise", "deny"),
        ("{approvers: me}", "approvers", "others"),
    ],
)  # fmt: skip
def test_a_condition_has_to_fit_the_payload(project, text, path, told):
    project.write("listeners/till.py", PAY)
    (finding,) = project.findings(TILL.replace("{approval}", text))
    assert finding.startswith(f"organism.yaml:8: listeners[0].approval.{path}: ")
    assert told in finding


def test_a_sum_is_no_limit_of_a_listener_with_an_approval(project):
    project.write("listeners/till.py", PAY)
    deny = "deny: {amount: {sum: {over: 5, within: 1h}}}"
    (finding,) = project.findings(TILL.replace("{approval}", f"required\n    {deny}"))
    assert "listeners[0].deny: a sum cannot be under deny: of a listener with approval:" in finding
    (till,) = project.load(TILL.replace("approval:\n      {approval}", deny)).listeners
    assert till.listener.deny[0].total.within == 3600


def test_a_payload_without_a_condition_is_an_error(project):
    project.write(
        "listeners/till.py",
        PAY.replace("payload: Pay,", "payload: Pay | Line,").replace(
            "@dataclass\nclass Line", "@xmlify\n@dataclass\nclass Line"
        ),
    )
    (finding,) = project.findings(TILL.replace("{approval}", "{when: {currency: {in: [USD]}}}"))
    assert "no condition is about a field of Line" in finding
    (till,) = project.load(
        TILL.replace("{approval}", "{when: {currency: {in: [USD]}}}\n    payload_class: listeners.till.Pay")
    ).listeners
    assert till.listener.approval.when


@pytest.mark.parametrize("said", ["yes", "true", "optional", "[required]", '""'])
def test_nothing_but_required_is_understood(project, said):
    (finding,) = project.findings(ONE + f"    approval: {said}\n")
    assert finding.startswith("organism.yaml:7: listeners[0].approval: ")
    assert "required" in finding


@pytest.mark.parametrize("nothing", ["", "~", "null"])
def test_a_key_without_a_value_does_not_switch_it_off(project, nothing):
    (finding,) = project.findings(ONE + f"    approval: {nothing}\n")
    assert finding.startswith("organism.yaml:7: listeners[0].approval: must not be empty")


def test_how_long_a_person_may_take(project):
    assert project.load(ONE).limits.approval == Limits().approval == 3600.0
    assert project.load(ONE + "limits:\n  approval: 2m\n").limits.approval == 120.0


@pytest.mark.parametrize(
    ("said", "finding"), [("0", "must be greater than 0"), ("never", "a time is a number of seconds")]
)
def test_it_is_a_time(project, said, finding):
    (found,) = project.findings(ONE + f"limits:\n  approval: {said}\n")
    assert found.startswith("organism.yaml:8: limits.approval: ")
    assert finding in found


def test_who_may_approve(project):
    assert project.load(ONE).limits.approvers == "anyone"
    assert project.load(ONE + "limits:\n  approvers: others\n").limits.approvers == "others"


@pytest.mark.parametrize("said", ["", "~", "other", "true", "[others]", '""'])
def test_nothing_else_is_understood_of_who_may_approve(project, said):
    (found,) = project.findings(ONE + f"limits:\n  approvers: {said}\n")
    assert found.startswith("organism.yaml:8: limits.approvers: ")
