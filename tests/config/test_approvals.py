"""Listeners that want an approval, and how long a person may take."""

from __future__ import annotations

import pytest

from agentserver.core.blueprint import Limits
from agentserver.rulebook import rules
from tests.config.conftest import ONE


def test_a_listener_wants_one_or_not(project):
    (plain,) = project.load(ONE).listeners
    assert plain.listener.approval is False
    (guarded,) = project.load(ONE + "    approval: required\n").listeners
    assert guarded.listener.approval is True


def test_the_guard_asks_about_exactly_those_listeners(project):
    organism = project.load(
        ONE + "    approval: required\n" + ONE.partition("listeners:\n")[2].replace("greeter", "other")
    )
    guard = next(guard for guard in rules(organism).guards if guard.name == "approval")
    assert guard._listeners == {"greeter"}


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
