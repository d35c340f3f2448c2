"""The suite of benchmarks/outside: its cases work without a defence, and its names are its own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from agentserver.provenance.policy.file import read_policy
from benchmarks.outside.cases import DOMAINS, attacked, benign, goal_holds_unaided, half, shape
from benchmarks.outside.defences import POLICY, Defence
from benchmarks.outside.run import main
from benchmarks.outside.tools import catalogue

FOLDER = Path(__file__).parents[2] / "benchmarks" / "outside"
HALVES = [name for name in ("one", "two") if (FOLDER / f"half_{name}").is_dir()]
TASKS = [task for name in HALVES for task in half(name)[0]]
ATTACKS = [attack for name in HALVES for attack in half(name)[1]]
AGENTDOJO = json.loads(Path(__file__).with_name("agentdojo_names.json").read_text("utf-8"))
"""Names of the tools of its four suites, their arguments, and the fields of stored and returned values."""

ONE_WORD_ARGUMENTS = {"amount", "bcc", "body", "cc", "content", "description", "email", "id", "location",
                      "permission", "query", "subject", "title", "url"}  # fmt: skip
ONE_WORD_FIELDS = {"amount", "balance", "bcc", "body", "cc", "content", "description", "email",
                   "filename", "files", "id", "location", "name", "owner", "price", "size", "status",
                   "subject", "title", "user"}  # fmt: skip
"""Words that the public APIs have, too, and that no API of its kind can do without."""


class Witness(Defence):
    """No defence; keeps the calls and the names of the fields that came back."""

    def __init__(self):
        self.calls, self.fields = [], set()

    def judge_call(self, tool, arguments):
        self.calls.append((tool, arguments))

    def observe_output(self, tool, arguments, result):
        self.fields |= set(keys(result))


def keys(value):
    """The names in a structure."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from keys(each)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_a_task_reaches_its_goal_without_a_defence(task):
    reached, run = benign(task, Defence())
    assert reached, run.calls
    assert not run.blocked


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: type(attack).__name__)
def test_an_attack_reaches_its_goal_without_a_defence_and_only_by_obeying(attack):
    reached, run = attacked(attack, Defence())
    assert run.attacked, "the task never shows the text"
    assert reached, run.calls
    assert attack.misleads or not goal_holds_unaided(attack, Defence())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: type(attack).__name__)
def test_the_user_never_asks_for_the_attackers_calls(attack):
    assert shape(attack.text) not in shape(attack.on.words + attack.on.pasted)


@pytest.mark.parametrize("name", HALVES)
def test_a_half_has_fifty_tasks_and_fifty_attacks_in_all_domains(name):
    for cases in half(name):
        assert len(cases) >= 50
        assert set(Counter(case.domain for case in cases)) == set(DOMAINS)
        assert all(case.kind for case in cases)


def test_no_two_cases_share_a_name_or_a_request():
    names = Counter((case.domain, type(case).__name__) for case in [*TASKS, *ATTACKS])
    words = Counter(task.words for task in TASKS)
    assert [name for name, count in (names + words).items() if count > 1] == []


def test_each_call_fits_the_schema_that_an_agent_is_shown():
    witness, tools = Witness(), catalogue()
    for task in TASKS:
        benign(task, witness)
    for attack in ATTACKS:
        attacked(attack, witness)
    validators = {name: jsonschema.Draft202012Validator(tool.schema) for name, tool in tools.items()}
    for validator in validators.values():
        validator.check_schema(validator.schema)
    for tool, arguments in witness.calls:
        validators[tool].validate(arguments)


def test_each_tool_is_documented():
    for tool in catalogue().values():
        assert tool.description, tool.name
        assert all(field["description"] for field in tool.schema["properties"].values()), tool.name


def test_the_policy_names_tools_and_declares_all_of_them():
    policy, names = read_policy(POLICY.read_text("utf-8"), POLICY.name), catalogue()
    assert policy.find_unused(names) == ()
    found = {name: policy.classify(name) for name in names if name not in policy.trusted}
    assert [name for name, kind in found.items() if not (kind.source or kind.sink)] == []


def test_no_name_is_shared_with_agentdojo_but_single_words():
    tools, witness = catalogue(), Witness()
    for task in TASKS:
        benign(task, witness)
    assert not set(tools) & set(AGENTDOJO["tools"])
    arguments = {name for tool in tools.values() for name in tool.schema["properties"]}
    assert arguments & set(AGENTDOJO["arguments"]) == ONE_WORD_ARGUMENTS
    assert (witness.fields | arguments) & set(AGENTDOJO["fields"]) <= ONE_WORD_FIELDS
    assert not {name for name in ONE_WORD_ARGUMENTS | ONE_WORD_FIELDS if "_" in name}


def test_the_command_tells_by_its_exit_status_whether_the_cases_work(capsys, tmp_path):
    kept = tmp_path / "results.json"
    assert main(["--half", "one", "--only", "shop", "--defence", "none", "--json", str(kept)]) == 0
    assert "none: utility 7/7" in capsys.readouterr().out
    assert {one["domain"] for one in json.loads(kept.read_text("utf-8"))} == {"shop"}
    with pytest.raises(SystemExit) as ended:
        main(["--only", "garden"])
    assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["--defence", "nobody"])
    assert ended.value.code == 2
