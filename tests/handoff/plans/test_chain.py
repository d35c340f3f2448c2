"""Adjacent steps: what fits, what does not, and how grave it is on which day."""

from __future__ import annotations

from datetime import date

import pytest

from agentserver.handoff.plans.chain import UNTYPED_HARD, StepMistake, StepSeverity, audit
from agentserver.hygiene.objections import Objection

BEFORE, AFTER = date(2026, 6, 30), date(2026, 7, 2)


def step(given="", taken=""):
    return {"payload_schema_out": given, "payload_schema_in": taken}


def breaks(*steps, today=AFTER, identify=str):
    return [(each.pair, each.code, each.severity) for each in audit(steps, today, identify)]


@pytest.mark.parametrize("steps", [(), (step(),), (step("a"), step("b", "a")), (step(" a "), step("", "a"))])
def test_matching_steps_are_not_mentioned(steps):
    assert breaks(*steps) == []


@pytest.mark.parametrize(("today", "severity"), [(BEFORE, "WARN"), (UNTYPED_HARD, "HARD"), (AFTER, "HARD")])
@pytest.mark.parametrize("steps", [(step(), step()), (step("a"), step()), (step(), step("", "a")), ({}, {})])
def test_untyped_is_dated(today, severity, steps):
    assert breaks(*steps, today=today) == [(0, StepMistake.UNTYPED, severity)]


@pytest.mark.parametrize("today", [BEFORE, AFTER])
def test_a_mismatch_is_always_hard_version_included(today):
    assert breaks(step("foo/v1"), step("", "foo/v2"), today=today) == [
        (0, StepMistake.MISMATCH, StepSeverity.HARD)
    ]


def test_schemas_that_are_refused_are_hard_and_named():
    def identify(cell):
        return Objection("closed", "", "no") if cell == "bad" else cell

    found = audit([step("bad"), step("bad", "bad"), step("", "a")], BEFORE, identify)
    assert [each.code for each in found] == [StepMistake.REJECTED] * 3
    assert "step 1->step 2: payload_schema_out: closed: no" in found[0].message
    assert "payload_schema_in" in found[1].message


def test_messages_name_the_pair_and_quote_safely():
    (found,) = audit([step("a\u202e"), step("", "b" * 500)], AFTER, str)
    assert "step 1->step 2" in found.message
    assert "\u202e" not in found.message
    assert len(found.message) < 300
