"""``llm:`` in the YAML: each mistake with its file, line, path and a likely correction."""

from __future__ import annotations

import sys
from textwrap import indent

import pytest

from agentserver.completion import Price, PromptRecording, RecordingExtent
from agentserver.spending import Budget, Budgets
from tests.config.conftest import ONE

GOOD = """
llm:
  backends:
    - {name: main, provider: openai, model: gpt-x, key: "${KEY}", tokens_per_minute: 1000, timeout: 30s}
    - {name: home, provider: openai, model: local, base_url: "http://127.0.0.1:11434/v1"}
    - {name: play, provider: scripted, script: script.yaml}
  models:
    - {name: small, backends: [main, home], strategy: round-robin, retries: 1}
    - {name: told, backends: [play]}
  prices:
    gpt-x: {input: 1.5, output: 6}
"""

SCRIPT = """
- calls: [{tool: search, arguments: {text: x}}]
- - {when: yes, text: good}
  - {text: bad}
"""


@pytest.fixture
def desk(project):
    project.environ["KEY"] = "canary-key-7781"
    project.write("script.yaml", SCRIPT.replace("yes", '"yes"'))
    return project


def test_backends_and_models_are_frozen_values(desk):
    models = desk.load(ONE + GOOD).models
    assert list(models.backends) == ["main", "home", "play"]
    assert models.backends["main"].timeout == 30
    assert models.backends["main"].price == Price(1.5, 6)
    assert models.backends["main"].key == "canary-key-7781"
    assert "canary" not in repr(models)
    assert models.models["small"].backends == ("main", "home")
    assert models.backends["play"].script[1][0]["when"] == "yes"
    assert desk.load(ONE).models is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("record: full", PromptRecording(RecordingExtent.FULL)),
        ("record: off", PromptRecording(RecordingExtent.OFF)),
        (
            "record: metadata, sample: 0.5, retention: 1h, roles: [viewer]",
            PromptRecording(RecordingExtent.METADATA, 0.5, 3600.0, frozenset({"viewer"})),
        ),
    ],
)
def test_the_recording_of_prompts_is_read(desk, text, expected):
    assert desk.load(ONE + GOOD + f"  prompts: {{{text}}}\n").models.prompts == expected


def test_loading_imports_no_provider(desk):
    before = set(sys.modules)
    desk.load(ONE + GOOD)
    assert not {"pydantic_ai", "openai", "anthropic"} & (set(sys.modules) - before)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            '"${KEY}"',
            "sk-literal-key",
            "organism.yaml:10: llm.backends[0].key: a key is never written into the file",
        ),
        ('"${KEY}"', '"x${KEY}"', 'write key: "${NAME}" or key: "${file:path}"'),
        (', key: "${KEY}"', "", 'llm.backends[0].key: is missing (write key: "${OPENAI_API_KEY}")'),
        (
            "provider: openai, model: gpt-x",
            "provider: opanai, model: gpt-x",
            "organism.yaml:10: llm.backends[0].provider",
        ),
        (
            "[main, home]",
            "[main, hom]",
            'llm.models[0].backends[1]: unknown backend "hom" (did you mean "home"?)',
        ),
        ("[main, home]", "[]", "llm.models[0].backends: must hold at least 1 entries"),
        ("[main, home]", "[main, main]", 'llm.models[0].backends[1]: the backend "main" is named twice'),
        ("name: home", "name: main", 'llm.backends[1].name: duplicate name "main" (first on line 10)'),
        ("retries: 1", "settings: {n: 3}", 'llm.models[0].settings: "n" is set by the server'),
        ("retries: 1", "retrys: 1", 'unknown key "retrys" (did you mean "retries"?)'),
        ("tokens_per_minute: 1000", "tokens: 1000", 'llm.backends[0].tokens: unknown key "tokens"'),
        ("model: local, ", "", "llm.backends[1].model: is missing"),
        ("script.yaml", "scrpt.yaml", "is no file inside the project directory"),
        ("script.yaml", "nothing", "is neither a .yaml file nor a dotted path"),
        ("script.yaml", "listeners.greet.Greting", 'did you mean "Greeting"'),
        (", script: script.yaml", "", "llm.backends[2].script: is missing"),
        ("provider: scripted,", 'provider: scripted, key: "${KEY}",', "a scripted backend asks nobody"),
        (
            "    gpt-x:",
            "    gpt-y:",
            'llm.prices.gpt-y: no backend has the model "gpt-y" (did you mean "gpt-x"?)',
        ),
        ("input: 1.5", "inptu: 1.5", 'unknown key "inptu" (did you mean "input"?)'),
    ],
)
def test_each_mistake_has_its_place(desk, old, new, expected):
    assert old in GOOD
    found = desk.errors(ONE + GOOD.replace(old, new))
    assert any(expected in line for line in found), found
    assert not any("sk-literal-key" in line or "canary" in line for line in found)


BUDGET = """
  budget:
    request: {tokens: 50000, money: 0.5}
    conversation: {money: 20}
    agents: {greeter: {tokens: 9000}}
"""


def test_budgets_are_frozen_values(desk):
    text = GOOD.replace("model: local", "model: gpt-x")
    models = desk.load(ONE + text.rstrip() + BUDGET).models
    assert models.budgets == Budgets(
        Budget(50_000, 500_000), Budget(None, 20_000_000), {"greeter": Budget(9000)}
    )
    assert models.backends["main"].ceiling == Price(1.5, 6)
    assert desk.load(ONE + GOOD).models.budgets == Budgets()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "greeter:",
            "greter:",
            'llm.budget.agents.greter: unknown listener "greter" (did you mean "greeter"?)',
        ),
        ("tokens: 9000", "tokens: 4000", "llm.budget.agents.greeter.tokens: no call will ever go out"),
        ("{money: 20}", "{}", "llm.budget.conversation: needs tokens or money"),
        ("{money: 20}", "{money: 0}", "llm.budget.conversation.money: must be greater than 0"),
        ("conversation:", "conversations:", 'unknown key "conversations" (did you mean "conversation"?)'),
        ("", "", 'llm.backends[1].model: no price is known of "local", and there is a budget in money'),
    ],
)
def test_each_mistake_of_a_budget_has_its_place(desk, old, new, expected):
    found = desk.errors(ONE + GOOD.rstrip() + BUDGET.replace(old, new))
    assert any(expected in line for line in found), found


def test_a_price_of_the_table_is_enough(desk):
    text = GOOD.replace(
        'model: local, base_url: "http://127.0.0.1:11434/v1"', 'model: gpt-5-mini, key: "${KEY}"'
    )
    models = desk.load(ONE + text.rstrip() + BUDGET).models
    assert models.backends["home"].price is None
    assert models.backends["home"].ceiling.output > 0


def test_an_empty_key_declares_nothing(desk):
    assert any("must not be empty" in line for line in desk.errors(ONE + "\nllm:\n"))
    assert any("llm.models: is missing" in line for line in desk.errors(ONE + "\nllm:\n  backends: []\n"))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("text: x", "a list was expected"),
        ("- {txt: x}", "turns[0]"),
        ("- {}", "needs text, calls, fault or finish"),
        ("- {fault: tired}", "turns[0].fault"),
        ("- [", "is not YAML"),
    ],
)
def test_a_script_is_checked_at_load(desk, script, expected):
    desk.write("script.yaml", script)
    found = desk.errors(ONE + GOOD)
    assert any("llm.backends[2].script" in line and expected in line for line in found), found


def test_included_files_declare_no_models(desk):
    desk.write("more.yaml", indent(GOOD, ""))
    found = desk.errors(ONE + "include: [more.yaml]\n")
    assert any('"llm" belongs in the main file' in line for line in found)
