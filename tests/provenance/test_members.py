"""Members of a list that a call writes back, and the attacks near it."""

from __future__ import annotations

from typing import Any

import pytest

from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, SinkRule
from tests.provenance.scenes import Scenario, desk

ID = ArgumentRule("id", Role.SELECTOR, id="event")
POLICY = desk(
    trusted=("people",),
    fields=(
        FieldRule("list_events", "*id", Standing.RECORD, "event"),
        FieldRule("read_event", "id", Standing.RECORD, "event"),
        FieldRule("read_group", "id", Standing.RECORD, "group"),
    ),
    sinks=(
        SinkRule("patch", (ID, ArgumentRule("guests*", Role.DESTINATION))),
        SinkRule("loose", (ArgumentRule("guests*", Role.DESTINATION),)),
    ),
)
ANA = {"name": "Ana Reis", "email": "ana@corp.example"}
EVENT = {
    "id": "EV-4410",
    "guests": ["bo@corp.example", "ci@firm.example"],
    "text": "We meet at the north gate.",
}


def scene(event: dict[str, Any] | None = None) -> Scenario:
    asked = Scenario(POLICY, "add Ana Reis to event EV-4410 and keep the others")
    asked.read("people", [ANA], q="Ana Reis")
    return asked.read("read_event", event or EVENT, id="EV-4410")


def patch(asked: Scenario, *guests: str, sink: str = "patch", **more: Any) -> bool:
    return asked.call(sink, **{"id": "EV-4410", "guests": [*guests], **more}).allowed


ALL = ("bo@corp.example", "ci@firm.example", "ana@corp.example")


@pytest.mark.parametrize(
    "event",
    [
        EVENT,
        {**EVENT, "guests": [{"email": each} for each in EVENT["guests"]]},
        {**EVENT, "guests": ["Bo Lund <bo@corp.example>", "ci@firm.example"]},
        {**EVENT, "organizer": "di@firm.example"},
    ],
)
def test_a_list_is_written_back_with_a_further_member(event: dict[str, Any]) -> None:
    assert patch(scene(event), *ALL)


def test_a_list_within_a_record_of_a_list_is_written_back() -> None:
    asked = Scenario(POLICY, "add Ana Reis to event EV-4410").read("people", [ANA], q="Ana Reis")
    other = {"id": "EV-4411", "guests": ["max@evil.example"]}
    asked.read("list_events", {"items": [other, EVENT]}, day="today")
    assert patch(asked, *ALL)
    assert not patch(asked, "max@evil.example", "ana@corp.example")
    assert not patch(asked, *ALL, "max@evil.example")


@pytest.mark.parametrize(
    ("guests", "more"),
    [
        ((*ALL, "max@evil.example"), {}),
        (("ci@firm.example", "ana@corp.example"), {}),  # a part of the list
        (("di@firm.example", "ana@corp.example"), {}),  # an address of another field
        (ALL, {"text": "The alarm code is 4471."}),
        (ALL, {"amount": 900}),
        (ALL, {"id": "EV-4411"}),
        (ALL, {"sink": "loose"}),  # no kind is declared
    ],
)
def test_another_receiver_a_part_content_or_another_record_is_refused(
    guests: tuple[str, ...], more: dict[str, Any]
) -> None:
    assert not patch(scene({**EVENT, "organizer": "di@firm.example"}), *guests, **more)


@pytest.mark.parametrize("source", ["read_mail", "read_group"])
def test_the_id_in_a_record_of_another_kind_names_no_list(source: str) -> None:
    asked = Scenario(POLICY, "add Ana Reis to event EV-4410").read("people", [ANA], q="Ana Reis")
    letter = {"id": "EV-4410", "subject": "EV-4410", "guests": ["max@evil.example", "bo@corp.example"]}
    asked.read(source, {**letter, "text": "See you at the gate on Friday."}, q="EV-4410")
    assert not patch(asked, "max@evil.example", "bo@corp.example", "ana@corp.example")


def test_only_the_list_as_it_was_read_last_is_kept() -> None:
    asked = scene().read("read_event", {**EVENT, "guests": ["bo@corp.example"]}, id="EV-4410")
    assert not patch(asked, *ALL)
    assert patch(asked, "bo@corp.example", "ana@corp.example")
