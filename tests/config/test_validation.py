import dataclasses
import sys

import pytest

from agentserver.config.keys.fields import NO_PATH
from agentserver.config.keys.models import IncludedFile, ListenerEntry, OrganismFile
from agentserver.config.validation import list_keys
from agentserver.core.blueprint import Limits, Listener
from tests.config.conftest import CODE, ONE


def test_the_models_hold_the_fields_and_defaults_of_the_core():
    assert IncludedFile.model_validate({"limits": {}}).limits == IncludedFile().limits == Limits()
    entry = ListenerEntry(name="a", handler="a.b", description="d")
    for field in dataclasses.fields(Listener):
        if field.name not in {"payloads", "exclusive", "answers", "chat"}:  # derived when it is bound
            value = getattr(entry, field.name)
            expected = getattr(Listener("a", (), "d"), field.name)
            told = {
                "peers": frozenset,
                "deny": tuple,
                "agent": bool,
                "approval": lambda said: said and said.rule(),
            }.get(field.name)
            assert (value if told is None else told(value)) == expected


def test_every_key_is_explained():
    for model in (OrganismFile, ListenerEntry):
        assert all(info.description for info in model.model_fields.values())
    assert all(field.metadata["description"] for field in dataclasses.fields(Limits))
    assert "schema" in list_keys(ListenerEntry)


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("agent: 'yes'", 'agent: true or false was expected, not "yes"'),
        ("agent: 1", "agent: true or false was expected; YAML reads this as the number 1"),
        ("concurrency: 0", "concurrency: must be at least 1"),
        ("concurrency: 1.5", "concurrency: a whole number was expected; YAML reads this as the number 1.5"),
        ("concurrency: 5000", "concurrency: must be at most 4096"),
        (
            "concurrency: '5'",
            'concurrency: a whole number was expected, not "5" (5 without quotation marks is one)',
        ),
        ("concurrency: Exclusive", 'concurrency: a whole number was expected, not "Exclusive"'),
        ("retries: -1", "retries: must be at least 0"),
        ("deadline: 0", "deadline: must be greater than 0"),
        ("deadline: 90000", "deadline: must be at most 86400"),
        (
            "deadline: 2 days",
            'deadline: a time is a number of seconds, or text such as "500ms", "30s", "2m", "1h", "7d", not "2 days"',
        ),
        ("deadline: true", "deadline: a number was expected; YAML reads this as the boolean true"),
        ("peers: other", 'peers: a list was expected, not "other" ([other] is one)'),
        ("peers: [no]", "peers[0]: text was expected; YAML reads this as the boolean no (quote it)"),
        (
            "peers: ['a b']",
            'peers[0]: may hold letters, digits and _ - . only, and begins with a letter, a digit or _, not "a b"',
        ),
        ("payload_class: []", "payload_class: must hold at least 1 entries"),
        (
            "payload_class: Greeting",
            'payload_class: a dotted path such as "listeners.greeter.greet" was expected, not "Greeting"',
        ),
        (
            "payload_class: 'a.b:c'",
            f'payload_class: {NO_PATH}, not "a.b:c" (did you mean "a.b.c"?)',
        ),
        (
            'prompt: "\\ud800"',
            "prompt: contains half a character: an escape from D800 to DFFF is only valid in a pair",
        ),
        ("payload_class: 5", "payload_class: a list was expected; YAML reads this as the number 5"),
        ("settings: 5", "settings: a mapping of keys was expected; YAML reads this as the number 5"),
        ("schema: ''", "schema: must not be empty"),
        ("Peers: []", 'Peers: unknown key "Peers" (did you mean "peers"?)'),
    ],
)
def test_values_of_a_listener(project, line, finding):
    assert project.listener(line) == [f"organism.yaml:7: listeners[0].{finding}"]


@pytest.mark.parametrize(
    ("description", "finding"),
    [
        ("''", "must not be empty"),
        ("' '", "must not be empty"),
        ('"a\\nb"', "must be one line without control or invisible characters"),
        ('"a\\u200bb"', "must be one line without control or invisible characters"),
        ('"a\\x1bb"', "must be one line without control or invisible characters"),
        ("x" * 501, "must be at most 500 characters long"),
        ("", "text was expected; YAML reads this as nothing (write a text)"),
    ],
)
def test_a_description_is_one_line(project, description, finding):
    assert project.errors(ONE.replace("Greets.", description)) == [
        f"organism.yaml:6: listeners[0].description: {finding}"
    ]


@pytest.mark.parametrize("name", ["system", "System", "system.todo", "SYSTEM.x"])
def test_the_systems_names_are_reserved(project, name):
    (error,) = project.errors(ONE.replace("greeter", name))
    assert (
        error
        == f'organism.yaml:4: listeners[0].name: "{name}" is reserved: "system" and "system.*" are the server\'s own'
    )


@pytest.mark.parametrize("name", ["-a", ".a", "a b", "é", "a/b", "'a\n'", "x" * 129])
def test_names_that_are_refused(project, name):
    (error,) = project.errors(ONE.replace("greeter", name))
    assert error.startswith("organism.yaml:4: listeners[0].name: m")


@pytest.mark.parametrize("name", ["a", "calculator.add", "A_1-b.c", "0", "systems", "x" * 128])
def test_names_that_are_taken(project, name):
    assert project.load(ONE.replace("greeter", f'"{name}"')).listeners[0].listener.name == name


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2", 2.0), ("0.25", 0.25), ("500ms", 0.5), ("30s", 30.0), ("2m", 120.0), ("1.5 h", 5400.0)],
)
def test_deadlines(project, text, seconds):
    assert project.load(ONE + f"    deadline: {text}\n").listeners[0].listener.deadline == seconds


@pytest.mark.parametrize("text", ["peers:", "peers: []"])
def test_peers_without_a_value_are_nobody(project, text):
    assert project.load(ONE + f"    {text}\n").listeners[0].listener.peers == frozenset()


def test_mistakes_of_the_whole(project):
    assert project.errors("listeners: {a: b}\nversion: 1\nlimits: 5\nlifespan: x\n") == [
        "organism.yaml:1: listeners: a list was expected (each entry begins with a dash and a space)",
        "organism.yaml:1: name: is missing",
        (
            'organism.yaml:2: version: unknown key "version" '
            f"(known here: {', '.join(sorted(list_keys(OrganismFile)))})"
        ),
        (
            "organism.yaml:3: limits: a mapping of keys was expected; YAML reads this as the number 5 "
            f"(known here: {', '.join(sorted(each.name for each in dataclasses.fields(Limits)))})"
        ),
        'organism.yaml:4: lifespan: a dotted path such as "listeners.greeter.greet" was expected',
    ]
    assert project.errors("name: demo\nlisteners: [greeter]\n") == [
        (
            'organism.yaml:2: listeners[0]: a mapping of keys was expected, not "greeter" '
            f"(known here: {', '.join(sorted(list_keys(ListenerEntry)))})"
        )
    ]


def test_a_faulty_entry_is_still_looked_at(project):
    assert project.errors("""
        name: demo
        listeners:
          - {name: no, handler: listeners.greet.gone, description: d, peers: [ghost], colour: red, payload_class: 5}
          - {name: "system", handler: listeners.greet.plain, description: d, settings: 5, agent: true, peers: 5}
        """) == [
        "organism.yaml:4: listeners[0].name: text was expected; YAML reads this as the boolean no (quote it)",
        "organism.yaml:4: listeners[0].payload_class: a list was expected; YAML reads this as the number 5",
        (
            'organism.yaml:4: listeners[0].colour: unknown key "colour" '
            f"(known here: {', '.join(sorted(list_keys(ListenerEntry)))})"
        ),
        'organism.yaml:4: listeners[0].peers[0]: unknown listener "ghost"',
        'organism.yaml:4: listeners[0].handler: there is no name "gone" in "listeners.greet" (listeners/greet.py)',
        'organism.yaml:5: listeners[1].name: "system" is reserved: "system" and "system.*" are the server\'s own',
        "organism.yaml:5: listeners[1].peers: a list was expected; YAML reads this as the number 5",
        "organism.yaml:5: listeners[1].settings: a mapping of keys was expected; YAML reads this as the number 5",
    ]


NEEDLESS = {
    "peers: [ghost]": 'peers[0]: unknown listener "ghost"',
    "payload_class: listeners.classes.Gone": 'there is no name "Gone"',
    "replies: [listeners.classes.Gone]": 'there is no name "Gone"',
    "settings: {size: 5}": "settings need a class that checks them",
    "retries: -1": "retries: must be at least 0",
    "colour: red": 'unknown key "colour"',
    "prompt: p.md": "prompt: belongs to a listener with a model",
}
"""Keys of a listener, each with a mistake that has nothing to do with its handler."""


@pytest.mark.parametrize("needless", NEEDLESS)
@pytest.mark.parametrize(
    "other", ["handler: greet", "handler: listeners.greet.gone", "isolation: {memory: x}", "deadline: soon"]
)
def test_a_mistake_of_a_listener_is_reported_together_with_another_one(project, needless, other):
    project.write("listeners/classes.py", CODE)
    keys = {"handler": "listeners.greet.greet", "payload_class": "listeners.classes.Greeting"}
    for said in (needless, other):
        key, _, value = said.partition(": ")
        keys[key] = value
    entry = ", ".join(f"{key}: {value}" for key, value in keys.items())
    found = project.errors(f"name: demo\nlisteners:\n  - {{name: a, description: d, {entry}}}\n")
    assert any(NEEDLESS[needless] in line for line in found), found
    assert any(f".{other.partition(':')[0]}" in line and NEEDLESS[needless] not in line for line in found), (
        found
    )


def test_a_handler_with_its_own_process_is_imported_only_without_mistakes(project):
    project.write("listeners/hostile.py", f"{CODE}\nraise SystemExit('imported')\n")
    keys = (
        "handler: listeners.hostile.greet, payload_class: listeners.hostile.Greeting, isolation: {memory: x}"
    )
    found = project.errors(f"name: demo\nlisteners:\n  - {{name: a, description: d, {keys}}}\n")
    assert len(found) == 1, found
    assert "listeners.hostile" not in sys.modules


def test_a_limit_is_checked_against_other_files_despite_a_faulty_one(project):
    project.write("more.yaml", "limits: {payload: 2000, storage: x}\n")
    found = project.errors(f"{ONE}include: [more.yaml]\nlimits: {{payload: 1000, queue: x}}\n")
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == [
        "limits.queue",
        "limits.storage",
        "limits.payload",
    ]


CODED = {
    "agent: true": "config:peers",
    "model: m": "config:agent",
    "prompt: p.md": "config:agent",
}


@pytest.mark.parametrize("line", CODED)
def test_a_finding_about_an_agent_has_the_code_that_explains_it(project, line):
    _, found = project.inspect(f"{ONE}    {line}\n")
    assert CODED[line] in {str(each.code) for each in found}
    assert ("config:agent" in {str(each.code) for each in found}) == (CODED[line] == "config:agent")


def test_a_repeated_name_is_not_explained_as_two_things_of_one_name(project):
    project.write("more.yaml", "limits: {queue: 5}\n")
    text = f"{ONE}include: [more.yaml]\nlimits: {{queue: 6}}\nmcp_server: {{expose: [greeter, greeter]}}\n"
    text = text.replace("include", "  - {name: b, handler: listeners.greet.greet, description: d}\ninclude")
    _, found = project.inspect(text)
    assert sorted(str(each.code) for each in found) == ["config:repeated", "config:repeated", "config:shared"]


def test_no_finding_shows_a_secret(project):
    project.environ["KEY"] = "hunter22 secret"
    text = ONE.replace("greeter", "${KEY}").replace(
        "Greets.", "${KEY}\n    deadline: ${KEY}\n    peers: ['${KEY}']"
    )
    assert not any(
        "hunter22" in line for line in project.findings(text + "    ${KEY}: 1\n    agent: ${KEY}\n")
    )


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("hops: 0", "hops: must be at least 1"),
        ("payload: 99999999", "payload: must be at most 67108864"),
        ("idle: 0", "idle: must be greater than 0"),
        ("drain: -1", "drain: must be at least 0"),
        ("hop: 1", 'hop: unknown key "hop" (did you mean "hops"?)'),
        ("queue: many", 'queue: a whole number was expected, not "many"'),
    ],
)
def test_limits(project, line, finding):
    assert project.findings(ONE + f"limits:\n  {line}\n") == [f"organism.yaml:8: limits.{finding}"]


@pytest.mark.parametrize(("where", "times"), [("", 0), ("limits:\n", 1)])
def test_the_schema_is_made_once_for_all_unknown_keys_and_not_for_those_at_the_top(
    project, monkeypatch, where, times
):
    made, indent = [], "  " if where else ""
    whole = OrganismFile.model_json_schema
    monkeypatch.setattr(OrganismFile, "model_json_schema", lambda: made.append(1) or whole())
    keys = "".join(f"{indent}unknown_{number}: 1\n" for number in range(50))
    assert (len(project.errors(ONE + where + keys)), len(made)) == (50, times)


@pytest.mark.parametrize(
    ("keys", "near"),
    [
        ("llm: {backends: [{name: a, provider: scripted, modell: x}], models: []}", "model"),
        ("llm: {backends: [], models: [], budget: {request: {token: 1}}}", "tokens"),
        ("intents: [{name: a, target: b, template: c, params: {p: {patern: d}}}]", "pattern"),
        ("engine: {postgres: {scheme: x}}", "schema"),
        ("mcp: [{name: a, command: [a], tools: [{name: t, trust: source, retry: 1}]}]", "retries"),
        ("limits: {hop: 1}", "hops"),
    ],
)
def test_an_unknown_key_at_any_depth_has_its_nearest_neighbour(project, keys, near):
    assert any(f'did you mean "{near}"?' in line for line in project.errors(ONE + keys + "\n"))
