"""``intents`` and ``handoffs`` in ``organism.yaml``: static checks, and the place of each error."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from agentserver.config import forget
from agentserver.handoff.scrub import Scrub

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from annotated_types import MaxLen
from agentserver import HandlerMetadata, HandlerResponse, Handoff, Pattern, Task, xmlify

@xmlify
@dataclass
class Ask:
    text: str

@xmlify
@dataclass
class Review:
    ticket: Annotated[str, Pattern("[A-Z]{2,10}-[0-9]{1,7}")]
    note: Annotated[str | None, MaxLen(500)] = None

@xmlify
@dataclass
class Wide:
    ticket: str

@xmlify
@dataclass
class Many:
    ticket: list[str]

class Bare:
    pass

class Fake:
    __xml_name__ = "{urn:x}Fake"

async def ask(payload, metadata):
    return None

async def work(payload, metadata):
    return None
"""

LISTENERS = """
name: demo
listeners:
  - {name: asker, handler: listeners.desk.ask, payload_class: listeners.desk.Ask, description: Asks., peers: [clerk]}
  - {name: clerk, handler: listeners.desk.work, payload_class: agentserver.Task, description: Works., peers: [files]}
  - {name: files, handler: listeners.desk.ask, payload_class: listeners.desk.Ask, description: Keeps files.}
"""

REVIEW = """
  - name: review
    target: clerk
    template: "Review {ticket}."
    params:
      ticket: {pattern: "[A-Z]{2,10}-[0-9]{1,7}"}
    note: 500
    allow_peers: [files]
"""


@pytest.fixture
def desk(project):
    project.write("listeners/desk.py", CODE)
    return project


def text(intents=REVIEW, more="", listeners=LISTENERS):
    return f"{listeners}intents:{indent(dedent(intents).rstrip(), '') if intents else ' []'}\n{dedent(more)}"


def change_review(old, new, more=""):
    assert old in REVIEW
    return text(REVIEW.replace(old, new), more)


def errors(desk, yaml):
    """Paths and messages."""
    found = [line.split(": ", 1)[1] for line in desk.errors(yaml)]
    assert found
    return found


def test_an_intent_is_read_and_proved(desk):
    organism = desk.load(text())
    handoffs = organism.handoffs
    forget(organism)
    intent = handoffs.vocabulary.intents["review"].intent
    assert (intent.targets, intent.note, intent.note_limit, intent.event_limit) == (
        ("clerk",),
        "note",
        500,
        2000,
    )
    assert intent.allow_peers == frozenset({"files"})
    assert [(each.name, each.required) for each in intent.parameters] == [("ticket", True)]
    assert (handoffs.audit, handoffs.scrub, handoffs.payloads) == ("out/handoff-audit.jsonl", Scrub.ON, {})
    assert (handoffs.source.file.name, handoffs.source.line) == ("organism.yaml", 8)


@pytest.mark.parametrize("nothing", ["", "~", "[]"])
def test_a_target_without_allowed_peers_reaches_none(desk, nothing):
    organism = desk.load(change_review("allow_peers: [files]", f"allow_peers: {nothing}"))
    forget(organism)
    assert organism.handoffs.vocabulary.intents["review"].intent.allow_peers == frozenset()


def test_a_policy_names_the_values_that_a_sink_is_handed(desk):
    desk.write("listeners/desk.py", CODE.replace('__xml_name__ = "{urn:x}Fake"', "pass"))
    policy = "provenance: {sources: [files], sinks: {clerk: {arguments: {ticket: selector}}}}"
    organism = desk.load(text(more=policy))
    forget(organism)
    assert organism.provenance.policy.sinks[0].arguments[0].name == "ticket"
    (finding,) = errors(desk, text(more=policy.replace("ticket", "tickets")))
    assert '"tickets" means no field that clerk takes (did you mean "ticket"?)' in finding


def test_settings_that_apply_to_all_handoffs(desk):
    more = "handoffs: {audit: none, scrub: off, legacy: sweep}"
    intents = REVIEW + "  - {name: sweep, target: clerk, template: Sweep., event: 100}\n"
    organism = desk.load(text(intents, more))
    forget(organism)
    handoffs = organism.handoffs
    assert (handoffs.audit, handoffs.scrub, handoffs.vocabulary.legacy) == (None, Scrub.OFF, "sweep")
    assert handoffs.vocabulary.intents["sweep"].intent.event_limit == 100


def test_a_payload_class_can_declare_the_parameters(desk):
    organism = desk.load(
        change_review(
            'params:\n      ticket: {pattern: "[A-Z]{2,10}-[0-9]{1,7}"}',
            "payload_class: listeners.desk.Review",
        )
    )
    handoffs = organism.handoffs
    forget(organism)
    assert {kind.__name__: by_target for kind, by_target in handoffs.payloads.items()} == {
        "Review": {"clerk": "review"}
    }
    intent = handoffs.vocabulary.intents["review"].intent
    assert ([each.name for each in intent.parameters], intent.note) == (["ticket"], "note")


def test_without_intents_there_are_no_handoffs(desk):
    organism = desk.load(LISTENERS.replace("agentserver.Task", "listeners.desk.Ask"))
    forget(organism)
    assert organism.handoffs is None


def test_every_type_of_a_parameter(desk):
    intents = """
  - name: all
    target: [clerk]
    template: "Do. {a} {b} {c} {d} {e} {f} {g} {h}"
    params:
      a: {pattern: "[a-z]{1,9}", words: 2, required: false}
      b: {choices: [red, green]}
      c: {type: integer}
      d: {type: decimal}
      e: {type: boolean}
      f: {type: date}
      g: {type: time}
      h: {type: dateTime, min_length: 1, max_length: 40}
"""
    organism = desk.load(text(intents))
    forget(organism)
    checked = organism.handoffs.vocabulary.intents["all"]
    assert sorted(checked.slugs) == list("abcdefgh")
    assert [each.required for each in checked.intent.parameters] == [False] + [True] * 7
    assert checked.intent.parameters[0].words == 2


CASES = {
    "no slug": (
        change_review('"[A-Z]{2,10}-[0-9]{1,7}"', '"[A-Za-z ]{1,40}"'),
        "intents[0].params.ticket: admits U+0020 SPACE, as in 'a a'",
    ),
    "no bound": (
        change_review('"[A-Z]{2,10}-[0-9]{1,7}"', '"[A-Z]+"'),
        "intents[0].params.ticket: has no bound on its length",
    ),
    "not of the profile": (
        change_review('"[A-Z]{2,10}-[0-9]{1,7}"', "'\\w{1,9}'"),
        "intents[0].params.ticket: its pattern",
    ),
    "no pattern": (
        change_review('{pattern: "[A-Z]{2,10}-[0-9]{1,7}"}', "{}"),
        "intents[0].params.ticket: any text fits it",
    ),
    "unknown parameter": (
        change_review("{ticket}.", "{tikcet}."),
        "intents[0].template: {tikcet} is no parameter; there are: ticket",
    ),
    "interpolated note": (
        change_review("{ticket}.", "Go on. {ticket} {note}."),
        "intents[0].note: is free text, which a template must not interpolate",
    ),
    "format": (change_review("{ticket}.", "{ticket!r}."), "intents[0].template: may hold {name} alone"),
    "beyond the peers": (
        change_review("[files]", "[files, asker]"),
        "intents[0].allow_peers: clerk has no peer asker",
    ),
    "unknown target": (
        change_review("target: clerk", "target: clrek"),
        'intents[0].target: unknown listener "clrek" (did you mean "clerk"?)',
    ),
    "target without tasks": (
        change_review("target: clerk", "target: files").replace("allow_peers: [files]", "allow_peers: []"),
        'intents[0].target: "files" takes no Task (add agentserver.Task to its payload_class)',
    ),
    "twice": (text(REVIEW + REVIEW.replace("\n", "\n", 1)), "intents[1].name: is declared twice"),
    "legacy unknown": (
        text(more="handoffs: {legacy: sweep}"),
        "handoffs.legacy: sweep is to take older requests but is not declared",
    ),
    "legacy with parameters": (
        text(more="handoffs: {legacy: review}"),
        "handoffs.legacy: review is to take older requests, which have no parameters",
    ),
    "unknown key": (change_review("note: 500", "notes: 500"), 'intents[0].notes: unknown key "notes" (did you mean "note"?)'),
    "unknown key of a parameter": (
        change_review("{pattern:", "{regex:"),
        'intents[0].params.ticket.regex: unknown key "regex"',
    ),
    "unknown key of all": (
        text(more="handoffs: {adit: x}"),
        'handoffs.adit: unknown key "adit" (did you mean "audit"?)',
    ),
    "name": (change_review("name: review", "name: re view"), "intents[0].name: may hold letters, digits and - _ . only"),
    "parameter's name": (
        change_review("ticket: {", "9t: {"),
        "intents[0].params.9t: may hold letters, digits, - and _ only",
    ),
    "too long a note": (change_review("500", "50000"), "intents[0].note: must be at most 10000"),
    "class and parameters": (
        change_review("    note: 500", "    payload_class: listeners.desk.Review"),
        "intents[0].params: conflicts with payload_class (keep one of them)",
    ),
    "no class": (
        text("\n  - {name: x, target: clerk, template: x, payload_class: listeners.desk.Nix}"),
        "intents[0].payload_class: ",
    ),
    "no payload": (
        text("\n  - {name: x, target: clerk, template: x, payload_class: listeners.desk.Bare}"),
        "intents[0].payload_class: \"listeners.desk.Bare\" is no @xmlify class of this organism's own",
    ),
    "a class that only looks like one": (
        text("\n  - {name: x, target: clerk, template: x, payload_class: listeners.desk.Fake}"),
        "intents[0].payload_class: Fake: is not a payload",
    ),
    "the server's own": (
        text("\n  - {name: x, target: clerk, template: x, payload_class: agentserver.Task}"),
        'intents[0].payload_class: "agentserver.Task" is no @xmlify class',
    ),
    "class of lists": (
        text("\n  - {name: x, target: clerk, template: x, payload_class: listeners.desk.Many}"),
        "intents[0].payload_class: Many: parameters: ticket: is repeated",
    ),
    "a value that is only given and no slug": (
        text("\n  - {name: x, target: clerk, template: x, params: {why: {max_length: 80}}}"),
        "intents[0].params.why: any text fits it",
    ),
    "class that is no slug": (
        text('\n  - {name: x, target: clerk, template: "{ticket}", payload_class: listeners.desk.Wide}'),
        "intents[0].payload_class: ticket: any text fits it",
    ),
    "class that means two things": (
        text(
            "\n  - {name: x, target: clerk, template: x, payload_class: listeners.desk.Review, note: 500}"
            "\n  - {name: y, target: clerk, template: y, payload_class: listeners.desk.Review, note: 500}"
        ),
        'intents[1].payload_class: means "x" for clerk already (use two classes)',
    ),
    "class that the target takes": (
        text(
            "\n  - {name: x, target: clerk, template: x, payload_class: listeners.desk.Review, note: 500}",
            listeners=LISTENERS.replace("agentserver.Task", "[agentserver.Task, listeners.desk.Review]"),
        ),
        "intents[0].payload_class: clerk takes Review itself, around the intent",
    ),
    "tasks without intents": (LISTENERS, '"clerk" takes a Task, and there are no intents'),
    "a listener of handoffs": (
        text(listeners=LISTENERS.replace("payload_class: listeners.desk.Ask", "payload_class: agentserver.Handoff", 1)),
        '"asker" takes a Handoff, which the server reads',
    ),
    "templates of nothing": (
        text('\n  - {name: x, target: clerk, template: "{a}", params: {a: {type: date, required: false}}}'),
        "intents[0].template: is empty when no optional parameter is given",
    ),
    "not a list": (f"{LISTENERS}intents: review\n", "intents: a list was expected"),
    "not a mapping": (change_review('{pattern: "[A-Z]{2,10}-[0-9]{1,7}"}', "x"), "intents[0].params.ticket: a mapping"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place(desk, case):
    yaml, told = CASES[case]
    found = errors(desk, yaml)
    assert found[0].startswith(told), found
    assert len(found) == 1


def test_the_line_is_that_of_the_value(desk):
    (line,) = desk.errors(CASES["no slug"][0])
    number = int(line.split(":")[1])
    assert "ticket: {pattern" in CASES["no slug"][0].splitlines()[number - 1]


def test_mistakes_of_shape_keep_the_rest_quiet(desk):
    (only,) = errors(
        desk,
        change_review("name: review", "name: re view").replace("allow_peers: [files]", "allow_peers: [x]"),
    )
    assert only.startswith("intents[0].name")


def test_intents_belong_in_the_main_file(desk):
    desk.write("more.yaml", "intents: []\n")
    (only,) = desk.errors(text(more="include: [more.yaml]"))
    assert only == 'more.yaml:1: intents: "intents" belongs in the main file'


def test_tasks_are_no_ambiguous_root(desk):
    two = (
        LISTENERS
        + "  - {name: other, handler: listeners.desk.work, payload_class: agentserver.Task, description: W.}\n"
    )
    assert [line for line in desk.findings(text(listeners=two)) if "Task" in line] == []


def test_the_packaged_example_loads(monkeypatch):
    from agentserver.config import load

    organism = load(Path(__file__).parents[2] / "examples/handoff/organism.yaml", environ={})
    forget(organism)
    assert len(organism.handoffs.vocabulary.intents) == 4


def test_the_record_is_where_its_writer_has_it_by_default():
    from agentserver.config.keys.intents import HandoffsEntry
    from agentserver.handoff.edge.records import DEFAULT

    assert HandoffsEntry().audit == str(DEFAULT)
