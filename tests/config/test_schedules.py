"""``schedules:`` in the YAML: values, and each mistake with its line, path and a likely correction."""

from __future__ import annotations

import pytest

from agentserver.core.state.principals import Trust
from agentserver.ports.schedules import CronExpression, Interval
from tests.config.conftest import CODE, ONE

SCHEDULES = """
schedules:
  - {name: beat, listener: greeter, every: 15m, fields: {name: Ada}}
  - {name: morning, listener: greeter, cron: "0 7 * * 1-5", zone: Europe/Berlin, overlap: queue, fields: {name: Bob}}
"""


def test_a_schedule_is_a_frozen_value_with_its_message(project):
    organism = project.load(ONE + SCHEDULES)
    beat, morning = organism.schedules
    assert (beat.name, beat.listener, beat.recurrence) == ("beat", "greeter", Interval(900))
    assert (beat.overlap, beat.catch_up, beat.trust) == ("skip", "last", Trust.ORDERS)
    assert b"<name>Ada</name>" in beat.message
    assert (morning.recurrence, morning.overlap) == (CronExpression("0 7 * * 1-5", "Europe/Berlin"), "queue")
    assert organism.addressed == frozenset()


def test_one_that_is_no_order_makes_its_listener_addressable_by_strangers(project):
    organism = project.load(
        ONE + SCHEDULES.replace("every: 15m", "every: 15m, trust: stranger, principal: feed")
    )
    assert organism.addressed == {"greeter"}
    assert organism.schedules[0].principal.name == "feed"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("listener: greeter, every", "listener: greter, every", 'schedules[0].listener: unknown listener "greter" (did you mean "greeter"?)'),
        ("{name: Ada}", "{nam: Ada}", 'schedules[0].fields.nam: the payload has no field "nam" (did you mean "name"?)'),
        ("{name: Ada}", "{name: 5}", "schedules[0].fields.name: "),
        ("{name: Ada}", "{}", "schedules[0].fields: missing member name"),
        ("every: 15m, ", "", "schedules[0]: needs every or cron (every: 1h)"),
        ("every: 15m", 'every: 15m, cron: "* * * * *"', "schedules[0].every: cannot be given with cron"),
        ("every: 15m", "every: 1.5", "schedules[0].every: is a whole number of seconds, at least 1"),
        ("every: 15m", "every: 15m, zone: UTC", "schedules[0].zone: means nothing without cron"),
        ("0 7 * * 1-5", "0 7 * * 8", "schedules[1].cron: has no due time: bad day-of-week"),
        ("0 7 * * 1-5", "0 7 * *", "schedules[1].cron: has five fields"),
        ("0 7 * * 1-5", "0 0 7 * * 1-5", "schedules[1].cron: has five fields"),
        ("0 7 * * 1-5", "0 0 29 2 1 *", "schedules[1].cron: has five fields"),
        ("0 7 * * 1-5", "0 0 31 2 *", "schedules[1].cron: has no due time: bad day-of-month"),
        ("Europe/Berlin", "Europe/Berln", 'schedules[1].zone: unknown time zone "Europe/Berln" (did you mean "Europe/Berlin"?)'),
        ("Europe/Berlin", "../../etc/passwd", "schedules[1].zone: unknown time zone"),
        ("name: morning", "name: beat", 'schedules[1].name: duplicate name "beat"'),
        ("overlap: queue", "overlap: drop", "schedules[1].overlap"),
        ("every: 15m", "every: 15m, payload: listeners.greet.Reply", "greeter does not accept Reply (Greeting)"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place(project, old, new, told):
    findings = project.findings(ONE + SCHEDULES.replace(old, new))
    assert any(told in finding for finding in findings), findings


def test_without_the_extra_an_interval_works_and_cron_is_refused_with_the_way_to_get_it(project, monkeypatch):
    monkeypatch.setattr("agentserver.config.triggers.is_installed", lambda extra: extra != "schedules")
    findings = project.findings(ONE + SCHEDULES)
    assert [each for each in findings if "schedules" in each and "cron" not in each] == []
    assert any(
        "schedules[1].cron: needs the extra schedules" in each and ".[schedules]" in each for each in findings
    )


def test_a_payload_is_chosen_where_several_are_accepted(project):
    project.write("listeners/greet.py", CODE.replace("payload: Greeting,", "payload: Greeting | Reply,"))
    findings = project.findings(ONE + SCHEDULES)
    assert any(
        "schedules[0].payload: is missing: greeter accepts Greeting, Reply" in each for each in findings
    )
