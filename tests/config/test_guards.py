"""``guards:`` in the YAML: each mistake with its file, line, path and a likely correction."""

from __future__ import annotations

from datetime import time
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.config.conftest import ONE

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from datetime import time
import pydantic
from pydantic import BaseModel, ConfigDict, Field
from agentserver.guards import Guard, deny

class Idle(Guard):
    def judge(self, message, memory):
        return None

@dataclass(frozen=True)
class Night(Idle):
    opens: time
    closes: time = time(18)
    listeners: tuple[str, ...] = ()

    def check(self, listeners):
        for name in self.listeners:
            if name not in listeners:
                raise ValueError(f'"{name}" is no listener')

@pydantic.dataclasses.dataclass(frozen=True)
class Limit(Idle):
    most: int = Field(gt=0)

class Model(Idle, BaseModel):
    model_config = ConfigDict(frozen=True)
    most: int = Field(default=1, gt=0)

class Loose(Idle, BaseModel):
    most: int = 1

@dataclass
class Thawed(Idle):
    most: int = 1

@dataclass(frozen=True)
class Named(Idle):
    name: str = ""

@dataclass(frozen=True)
class Failing(Idle):
    def __post_init__(self):
        self.gone()

class FailingToo(Idle):
    def __init__(self):
        raise SystemExit("no")

class Checking(Idle):
    def check(self, listeners):
        listeners["gone"]

class Jugde(Guard):
    def jugde(self, message, memory):
        return deny("never asked")

class Waiting(Guard):
    async def judge(self, message, memory):
        return None

class NoGuard: ...

class Speechless(ValueError):
    def __str__(self):
        raise RuntimeError("no words")

class Mute(Idle):
    def check(self, listeners):
        raise Speechless

class MuteToo(Idle):
    def __init__(self):
        raise Speechless

class Brief(Idle):
    def check(self, listeners):
        raise ValueError

class Greedy(Idle):
    def check(self, listeners):
        listeners.clear()

class Changeling(Idle):
    def __new__(cls):
        return 5

class Blank(Guard):
    judge = None

class Yielding(Guard):
    def judge(self, message, memory):
        yield None


it = Idle()
"""


@pytest.fixture
def guards(project):
    project.write("top.py", CODE)

    def inspect(text):
        lines = dedent(text).strip().splitlines()
        return project.errors(ONE + "guards:\n" + "".join(f"  {line}\n" for line in lines))

    return inspect


def test_guards_have_their_settings_and_names_and_stand_in_order(project):
    project.write("top.py", CODE)
    organism = project.load(
        ONE
        + """
guards:
  - use: top.Night
    opens: "08:00"
    listeners: [greeter]
  - {use: top.Night, name: weekend, opens: "10:00", closes: "12:00"}
  - {use: top.Model, most: 3}
  - use: top.Idle
  - {use: top.Limit, most: "4"}
"""
    )
    assert list(organism.guards) == ["Night", "weekend", "Model", "Idle", "Limit"]
    first, second, model, _, limit = organism.guards.values()
    assert (first.opens, first.closes, first.listeners) == (time(8), time(18), ("greeter",))
    assert (second.opens, second.closes) == (time(10), time(12))
    assert (model.most, limit.most) == (3, 4)


def test_a_setting_may_come_from_the_environment(project):
    project.write("top.py", CODE)
    project.environ["MOST"] = "5"
    organism = project.load(ONE + "guards: [{use: top.Model, most: '${MOST}'}]\n")
    assert organism.guards["Model"].most == 5


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("- {use: top.Night}", "organism.yaml:8: guards[0].opens: is missing"),
        (
            "- use: top.Night\n  opens: '08:00'\n  close: '09:00'",
            'organism.yaml:10: guards[0].close: unknown key "close" (did you mean "closes"?)',
        ),
        ("- {use: top.Model, mots: 1}", 'organism.yaml:8: guards[0].mots: unknown key "mots" (did you mean "most"?)'),
        (
            "- {use: top.Night, opens: noon}",
            "organism.yaml:8: guards[0].opens: ",
        ),
        ("- {use: top.Limit, most: 0}", "organism.yaml:8: guards[0].most: must be greater than 0"),
        ("- {use: top.Model, most: x}", "organism.yaml:8: guards[0].most: "),
        (
            "- {use: top.Idle, most: 1}",
            "organism.yaml:8: guards[0].most: Idle takes no settings (make it a frozen dataclass with a field most)",
        ),
        ("- {use: top.Nihgt}", ('organism.yaml:8: guards[0].use: there is no name "Nihgt" in "top" (top.py) '
         '(did you mean "Night"?)')),
        ("- {use: tpo.Night}", 'organism.yaml:8: guards[0].use: there is no module "tpo" in '),
        ("- {use: Night}", 'organism.yaml:8: guards[0].use: a dotted path such as "listeners.greeter.greet" was expected'),
        ("- {use: 1}", "organism.yaml:8: guards[0].use: text was expected; YAML reads this as the number 1 (quote it)"),
        ("- {name: x}", "organism.yaml:8: guards[0].use: is missing"),
        ("- top.Night", "organism.yaml:8: guards[0]: a mapping of keys was expected"),
        (
            "- {use: top.NoGuard}",
            "organism.yaml:8: guards[0].use: NoGuard is not a guard; derive it from agentserver.guards.Guard",
        ),
        ("- {use: top.Jugde}", "organism.yaml:8: guards[0].use: Jugde does not define judge"),
        (
            "- {use: top.Waiting}",
            "organism.yaml:8: guards[0].use: Waiting.judge must be declared with def, because a guard cannot await",
        ),
        (
            "- {use: top.it}",
            ('organism.yaml:8: guards[0].use: "top.it" is not a class (name the class of the guard; its settings stand '
            "here)"),
        ),
        (
            "- {use: top.Thawed}",
            ("organism.yaml:8: guards[0].use: Thawed must be frozen: a guard keeps nothing but its settings and its "
            "memory (@dataclass(frozen=True))"),
        ),
        ("- {use: top.Loose}", "organism.yaml:8: guards[0].use: Loose must be frozen"),
        (
            "- {use: top.Named}",
            ("organism.yaml:8: guards[0].use: Named has a setting name, which is a key of every guard (call the setting "
            "otherwise)"),
        ),
        (
            "- {use: top.Failing}",
            ("organism.yaml:8: guards[0].use: Failing failed: top.py:46: AttributeError: 'Failing' object has no "
            "attribute 'gone'"),
        ),
        ("- {use: top.FailingToo}", "organism.yaml:8: guards[0].use: FailingToo failed: top.py:50: SystemExit: no"),
        ("- {use: top.Checking}", "organism.yaml:8: guards[0]: Checking.check failed: top.py:54: KeyError: 'gone'"),
        ("- {use: top.Mute}", "organism.yaml:8: guards[0]: Mute.check failed: the text of its exception raised as well"),
        ("- {use: top.MuteToo}", "organism.yaml:8: guards[0].use: MuteToo failed: the text of its exception raised as well"),
        ("- {use: top.Brief}", "organism.yaml:8: guards[0]: Brief.check failed: top.py:"),
        ("- {use: top.Greedy}", "organism.yaml:8: guards[0]: Greedy.check failed: top.py:"),
        (
            "- {use: top.Changeling}",
            "organism.yaml:8: guards[0].use: Changeling gives int, no guard of its own class (define no __new__)",
        ),
        ("- {use: top.Blank}", "organism.yaml:8: guards[0].use: Blank.judge is no method"),
        ("- {use: top.Yielding}", "organism.yaml:8: guards[0].use: Yielding.judge is a generator"),
        (
            "- use: top.Night\n  opens: '08:00'\n  listeners: [gone]",
            'organism.yaml:8: guards[0]: "gone" is no listener',
        ),
        (
            "- use: top.Idle\n- use: top.Idle",
            ('organism.yaml:9: guards[1].use: duplicate guard "Idle" (first at organism.yaml:8) (tell them apart by '
            "name:)"),
        ),
        (
            "- {use: top.Idle, name: peers}",
            'organism.yaml:8: guards[0].name: "peers" is the name of a guard of the server (give it another name:)',
        ),
        ("- {use: top.Idle, name: ' x'}", "organism.yaml:8: guards[0].name: may hold letters, digits and _ - . only"),
    ],
)  # fmt: skip
def test_each_mistake_is_reported_at_its_place(guards, text, finding):
    (found,) = guards(text)
    assert found.startswith(finding)


def test_a_list_is_expected(project):
    assert project.errors(ONE + "guards: {}\n") == [
        "organism.yaml:7: guards: a list was expected (each entry begins with a dash and a space)"
    ]


def test_they_belong_in_the_main_file(project):
    project.write("more.yaml", "guards: []\n")
    assert project.errors(ONE + "include: [more.yaml]\n") == [
        'more.yaml:1: guards: "guards" belongs in the main file'
    ]


def test_a_guard_that_looks_at_listeners_is_asked_when_nothing_else_is_wrong(project):
    project.write("top.py", CODE)
    text = (
        ONE.replace("greet.greet", "greet.gone")
        + "guards: [{use: top.Night, opens: '08:00', listeners: [greeter]}]\n"
    )
    assert [finding.partition(":")[2].partition(":")[0] for finding in project.errors(text)] == ["5"]


def test_editors_know_the_key():
    import json

    import jsonschema

    schema = json.loads((Path(__file__).parents[2] / "schemas" / "organism.schema.json").read_text("utf-8"))
    jsonschema.validate(yaml.safe_load(ONE + "guards: [{use: a.B, any: 1}]"), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(ONE + "guards: [{any: 1}]"), schema)
