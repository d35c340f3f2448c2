"""``openai:`` of a listener: the member that takes a chat's text, and each mistake with its place and a correction."""

from __future__ import annotations

import pytest

from tests.config.conftest import CODE, ONE

CHAT = f"{ONE}    openai: true\nhttp: {{}}\n"
CLASS = "class Greeting:\n    name: str\n"


def chat(project, fields: str, openai: str = "true"):
    project.write("listeners/greet.py", CODE.replace(CLASS, f"class Greeting:\n    {fields}\n"))
    return project.findings(CHAT.replace("true", openai))


def test_the_only_required_text_takes_the_chat(project):
    (bound,) = project.load(CHAT).listeners
    assert bound.listener.chat == "name"


@pytest.mark.parametrize(
    ("fields", "openai"),
    [
        ("name: str\n    loud: bool = False", "true"),
        ("name: str = ''\n    other: str = ''", "other"),
        ("name: str", "false"),
    ],
)
def test_a_listener_that_can_be_a_model_has_no_finding(project, fields, openai):
    assert chat(project, fields, openai) == []


@pytest.mark.parametrize(
    ("fields", "openai", "told"),
    [
        ("name: str\n    age: int", "true", "Greeting needs name, age, and a chat has one text"),
        ("age: int", "true", "Greeting needs age, and a chat has one text"),
        ("names: list[str] = field(default_factory=list)", "true", "Greeting has names, and a chat has one text"),
        ("name: str = ''\n    other: str = ''", "true", "has name, other, and a chat has one text (openai: name)"),
        ("name: str", "nam", "Greeting has no text field nam"),
        ("age: int", "age", "Greeting has no text field age"),
        ("name: str\n    age: int", "name", "Greeting needs age as well, which a chat does not have"),
    ],
)  # fmt: skip
def test_each_mistake_names_the_missing_part_of_a_chat(project, fields, openai, told):
    findings = chat(project, fields, openai)
    assert any(told in finding for finding in findings), findings
    assert findings[0].startswith("organism.yaml:7: listeners[0].openai: "), findings


def test_several_payload_classes_and_no_door_are_mistakes(project):
    project.write("listeners/greet.py", CODE.replace("payload: Greeting,", "payload: Greeting | Reply,"))
    assert any("it accepts 2 payload classes" in each for each in project.findings(CHAT))
    project.write("listeners/greet.py", CODE)
    assert any("there is no http:" in each for each in project.findings(CHAT.replace("http: {}\n", "")))
