"""What `call LISTENER --help` and a shell know of a listener's fields, and options of all verbs behind the verb."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.cli.conftest import organism
from tests.cli.test_schemas import ORDER, ORDERING

PAINTER = '''
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Literal

from agentserver import Attribute, xmlify

print("imported")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Layer:
    size: int
    coats: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wall:
    height: float
    layers: list[Layer] = field(default_factory=list)


@xmlify
@dataclass(frozen=True)
class Paint:
    """Something to be painted.

    Args:
        title: of the work.
    """

    title: str
    number: Annotated[int | None, Attribute("no")] = None
    colour: Colour = Colour.RED
    gloss: bool = False
    note: str = ""
    finish: Literal["matt", "satin"] = "matt"
    walls: list[Wall] = field(default_factory=list)


@xmlify
@dataclass(frozen=True)
class Stop:
    pass


async def paint(payload: Paint, metadata):
    return None


async def either(payload: Paint | Stop, metadata):
    return None
'''

EXAMPLE = "--title text --walls.0.height 1.5 --walls.0.layers.0.size 1 --walls.0.layers.0.coats text"

LISTENERS = """
name: painters
listeners:
  - {name: painter, description: Paints., handler: fields_of_painter.paint}
  - {name: either, description: Paints or stops., handler: fields_of_painter.either}
"""


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    (folder / "fields_of_painter.py").write_text(PAINTER)
    organism(folder, LISTENERS)
    return folder


@pytest.fixture
def studio_folder(studio, monkeypatch):
    monkeypatch.chdir(studio)


def test_help_of_a_listener_lists_its_fields(command, studio_folder):
    result = command("call", "painter", "--help")
    assert result.exit_code == 0
    assert result.output.removeprefix("imported\n").splitlines() == [
        "Usage: agentserver call painter --FIELD VALUE ...",
        "",
        "  Paints.",
        "  Paint: Something to be painted.",
        "",
        "  --title                   text  [required]",
        "                            of the work.",
        "  --no                      integer",
        "  --colour                  one of red, blue  [default: red]",
        "  --gloss                   true or false  [default: false]",
        "  --note                    text  [default: empty]",
        "  --finish                  one of matt, satin  [default: matt]",
        "  --walls.N.height          number  [required in walls.N]",
        "  --walls.N.layers.N.size   integer  [required in walls.N.layers.N]",
        "  --walls.N.layers.N.coats  text ...",
        "  N counts from 0: walls.0, then walls.1",
        "",
        f"  agentserver call painter {EXAMPLE}",
        "",
        "Other options: agentserver call --help",
    ]


def test_the_example_of_the_help_is_accepted_verbatim(command, studio_folder):
    shown = command("call", "painter", "-h").output
    line = next(line for line in shown.splitlines() if line.startswith("  agentserver call painter --"))
    assert command(*shlex.split(line)[1:]).stderr == "ended without an answer: no handler returned one\n"


def test_each_payload_of_a_listener_or_the_requested_one_is_shown(command, studio_folder):
    both = command("call", "either", "--help").output
    assert "call either --root Paint --FIELD" in both
    assert "Stop has no fields." in both
    assert "--title" not in command("call", "either", "--root", "Stop", "--help").output
    assert "either takes Paint, Stop" in command("call", "either", "--root", "No", "--help").stderr


def test_a_payload_with_a_schema_of_its_own_goes_as_xml(command, studio_folder, studio):
    (studio / "own.xsd").write_text(ORDER)
    (studio / "ordering_for_help.py").write_text(ORDERING.replace("SCHEMA", repr(ORDER)))
    (studio / "own.yaml").write_text(
        "name: own\nlisteners:\n  - {name: orders, description: Takes orders., schema: own.xsd,\n"
        "     payload_class: ordering_for_help.Order, handler: ordering_for_help.take}\n"
    )
    shown = command("call", "--organism", "own.yaml", "orders", "--help").output
    assert "Order has a schema of its own and is sent as XML: --payload FILE" in shown


def test_help_without_a_listener_is_that_of_the_verb(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--help after a listener lists its fields" in " ".join(command("call", "-h").output.split())
    assert "begin with: agentserver init" in command("call", "painter", "-h").stderr


def test_help_of_no_listener_names_those_that_there_are(command, studio_folder):
    result = command("call", "panter", "--help")
    assert result.exit_code == 2
    assert 'did you mean "painter"?' in result.stderr


def complete_words(command, kind, words):
    """What a shell is offered for the last of the words, as its script asks for it."""
    typed = words.split(" ")
    place = typed[-1] if kind == "fish" else str(len(typed) - 1)
    asked = {"_AGENTSERVER_COMPLETE": f"{kind}_complete", "COMP_WORDS": words, "COMP_CWORD": place}
    lines = [line for line in command(env=asked).stdout.splitlines() if line]
    if kind == "zsh":
        return lines[1::3]
    return [line.partition(",")[2].partition("\t")[0] for line in lines]


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_each_shell_completes_fields_and_their_values(command, studio_folder, kind):
    assert complete_words(command, kind, "agentserver call painter --c") == ["--colour"]
    assert complete_words(command, kind, "agentserver call painter --colour b") == ["blue"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("painter --gloss ", ["true", "false"]),
        ("painter --note ", []),
        ("painter --fi", ["--finish"]),
        ("painter --finish matt --fi", []),
        ("painter --finish=matt --fi", []),
        ("painter --finish = s", ["satin"]),
        ("painter --walls.0.h", ["--walls.0.height"]),
        ("painter --walls.0.height 1 --w", [
            "--walls.1.height",
            "--walls.0.layers.0.size", "--walls.1.layers.0.size", "--walls.0.layers.0.coats", "--walls.1.layers.0.coats",
        ]),
        (f"painter --walls.{'9' * 5000}.height 1 --w", [
            "--walls.0.height", "--walls.0.layers.0.size", "--walls.0.layers.0.coats",
        ]),
        ("either --root ", ["Paint", "Stop"]),
        ("either --root Stop --t", ["--timeout", "--trace"]),
        ("nobody --c", []),
    ],
)  # fmt: skip
def test_next_steps_are_suggested(command, studio_folder, words, offered):
    assert complete_words(command, "bash", f"agentserver call {words}") == offered


def test_an_organism_with_mistakes_completes_nothing(command, tmp_path, monkeypatch):
    organism(tmp_path, "name: x\nlisteners:\n  - {name: greeter, handler: no.such}\n")
    monkeypatch.chdir(tmp_path)
    assert complete_words(command, "bash", "agentserver call greeter --na") == []


@pytest.mark.parametrize(
    "words",
    [
        ("--log-format", "json", "call", "crash"),
        ("call", "crash", "--log-format", "json"),
        ("--log-format", "text", "call", "--log-format=json", "crash"),
    ],
)
def test_options_of_logging_stand_before_the_verb_or_behind_it(command, here, words):
    first, *_ = command(*words).stderr.splitlines()
    assert json.loads(first)["message"] == "crash crashed"


def test_they_stand_behind_a_verb_of_a_verb(command, here):
    assert "--log-format" in command("journal", "verify", "--help").output
    assert "is not one of" in command("journal", "verify", "--log-level", "loud").stderr


def test_the_level_behind_the_verb_counts(command, here):
    told = ("call", "greeter", "--name", "Ada")
    assert command(*told).stderr == ""
    first, *_ = command(
        "--log-level", "error", *told, "--log-level", "debug", "--log-format", "json"
    ).stderr.splitlines()
    assert json.loads(first)["level"] in {"debug", "info"}
