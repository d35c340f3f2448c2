"""The suite of benchmarks/fresh: its cases work without a defence, fit their tools, and an attack is nobody's order."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import jsonschema
import pytest

from benchmarks.fresh.run import (
    HALVES,
    POLICIES,
    UNGUARDED,
    describe_arguments,
    main,
    read_domains,
    run_case,
)

DOMAINS = [*read_domains()]
CASES = [(domain, case) for domain in DOMAINS for case in domain.cases]


@pytest.mark.parametrize(("domain", "case"), CASES, ids=lambda part: part.name)
def test_a_case_reaches_its_goal_without_a_defence(domain, case):
    assert run_case(domain, case, domain.write_policy(UNGUARDED)) == (True, [])


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_each_call_fits_a_tool_that_the_policy_declares(domain):
    said = domain.said
    assert set(said["tools"]) == {*said["sources"], *said["trusted"], *said["sinks"]}
    assert {name: set(roles) for name, roles in said["lines"].items()} == {
        name: set(said["tools"][name]) for name in said["sinks"]
    }
    for case in domain.cases:
        for name, arguments, *output in (*case.run, *case.obey):
            jsonschema.validate(arguments, describe_arguments(said["tools"][name]))
            assert bool(output) is (name not in said["sinks"]), case.name
    for policy in POLICIES:
        assert domain.write_policy(policy).find_unused(said["tools"]) == ()


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_a_domain_has_six_tasks_that_act_and_six_attacks_that_begin_with_reading(domain):
    tasks, attacks = ([case for case in domain.cases if case.attack is side] for side in (False, True))
    assert len(tasks) >= 6
    assert len(attacks) >= 6
    assert all(len(case.run[-1]) == 2 and not case.obey for case in tasks)
    assert all(case.obey and all(len(step) == 3 for step in case.run) for case in attacks)
    assert [name for name, count in Counter(case.name for case in domain.cases).items() if count > 1] == []


def test_a_case_is_judged_at_its_own_moment_and_else_at_that_of_its_domain():
    (travel,) = (domain for domain in DOMAINS if domain.name == "travel")
    moments = {case.name: case.now for case in travel.cases}
    assert moments.pop("does-she-need-a-visa") == datetime(2026, 6, 3, 9, tzinfo=UTC)
    assert set(moments.values()) == {travel.said["now"]} == {datetime(2026, 6, 12, 9, tzinfo=UTC)}


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_each_key_of_a_case_is_text(domain):
    def find_keys(part):
        children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return {
            *(part if isinstance(part, dict) else ()),
            *(key for each in children for key in find_keys(each)),
        }

    assert {type(key) for key in find_keys(domain.said)} == {str}


def test_the_report_has_a_line_for_each_policy_and_half_and_prints_no_unseen_case(capsys, tmp_path):
    assert main(["--show", "--json", str(tmp_path / "counts.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split(" | ")[1] for line in lines if " | " in line}
    assert shown <= {domain.name for domain in read_domains(["seen"])}
    assert [line.partition(":")[0] for line in lines if " | " not in line] == [
        f"{policy}, {half}" for policy in POLICIES for half in (*HALVES, "both")
    ]
    assert (tmp_path / "counts.json").exists()
