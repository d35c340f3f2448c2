from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentserver.config import ConfigError, load
from agentserver.config.keys.models import ListenerEntry
from agentserver.config.validation import list_keys
from agentserver.config.yaml.sources import find_project_directory
from agentserver.core.blueprint import Limits


def test_a_whole_organism(project):
    project.environ["TOKEN"] = "s3cr3t-token"
    project.write(
        "listeners/desk.py",
        """
        from contextlib import asynccontextmanager
        from dataclasses import dataclass
        from listeners.greet import Greeting, Reply

        @dataclass(frozen=True)
        class Settings:
            token: str
            size: int = 3

        async def ask(payload: Greeting | Reply, metadata):
            return None

        @asynccontextmanager
        async def resources():
            yield
        """,
    )
    project.write("schemas/greeting.xsd", "<xsd/>")
    organism = project.load("""
        name: demo
        lifespan: listeners.desk.resources
        limits: {hops: 12, idle: 2m}
        listeners:
          - name: greeter
            handler: listeners.greet.greet
            description: Greets.
            schema: schemas/greeting.xsd
          - name: desk.ask
            handler: listeners.desk.ask
            payload_class: [listeners.greet.Greeting, listeners.greet.Reply]
            description: Asks.
            agent: true
            peers: [greeter, system.todo]
            broadcast: true
            concurrency: 2
            deadline: 500ms
            retries: 1
            settings: {token: "${TOKEN}"}
            settings_class: listeners.desk.Settings
        """)
    greeter, desk = organism.listeners
    assert organism.name == "demo"
    assert organism.project == project.root
    assert organism.files == (project.root / "organism.yaml",)
    assert organism.limits == Limits(hops=12, idle=120.0)
    assert organism.lifespan.__name__ == "resources"
    assert [kind.__name__ for kind in greeter.listener.payloads] == ["Greeting"]
    assert [kind.__name__ for kind in greeter.discovered] == ["Greeting", "Reply"]
    assert greeter.schema == project.root / "schemas/greeting.xsd"
    assert greeter.settings is None
    assert str(greeter.source).endswith("organism.yaml:6")
    assert (desk.listener.name, desk.listener.agent, desk.listener.broadcast) == ("desk.ask", True, True)
    assert desk.listener.peers == frozenset({"greeter", "system.todo"})
    assert (desk.listener.concurrency, desk.listener.deadline, desk.listener.retries) == (2, 0.5, 1)
    assert (desk.settings.token, desk.settings.size) == ("s3cr3t-token", 3)
    assert "s3cr3t" not in repr(organism)
    assert organism.secrets.redact("a s3cr3t-token b") == "a [redacted] b"


def test_defaults_are_those_of_the_core(project):
    (bound,) = project.load("""
        name: demo
        listeners: [{name: a, handler: listeners.greet.greet, description: d}]
        """).listeners
    plain = type(bound.listener)(name="a", payloads=bound.listener.payloads, description="d")
    assert bound.listener == plain


def test_load_raises_with_every_error_in_order_and_no_warning(project):
    path = project.write(
        "organism.yaml",
        """
        name: demo
        listeners:
          - {name: greeter, handler: listeners.greet.greet, description: d, agent: true}
          - name: shouter
            handler: listeners.greet.greet
            description: d
            peers: [greter]
            colour: red
          - {name: x, handler: listeners.greet.gret, descripton: d}
        limits: {hops: 0}
        """,
    )
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    lines = str(caught.value).replace(f"{project.root}/", "").splitlines()
    assert lines == [
        'organism.yaml:8: listeners[1].peers[0]: unknown listener "greter" (did you mean "greeter"?)',
        (
            'organism.yaml:9: listeners[1].colour: unknown key "colour" '
            f"(known here: {', '.join(sorted(list_keys(ListenerEntry)))})"
        ),
        "organism.yaml:10: listeners[2].description: is missing",
        'organism.yaml:10: listeners[2].descripton: unknown key "descripton" (did you mean "description"?)',
        (
            'organism.yaml:10: listeners[2].handler: there is no name "gret" in "listeners.greet" (listeners/greet.py) '
            '(did you mean "greet"?)'
        ),
        "organism.yaml:11: limits.hops: must be at least 1",
    ]
    assert len(caught.value.findings) == len(lines)


def test_the_project_directory_is_the_files_own_or_the_parent_of_config(project):
    assert find_project_directory(project.root / "organism.yaml") == project.root
    assert find_project_directory(project.root / "config" / "organism.yaml") == project.root


def test_a_file_in_config_resolves_from_the_parent_and_findings_name_files_from_there(project, monkeypatch):
    text = """
        name: demo
        listeners: [{name: a, handler: listeners.greet.gret, description: d}]
        """
    path = project.write("config/organism.yaml", text)
    monkeypatch.chdir(project.root / "config")
    with pytest.raises(ConfigError, match=r"^organism.yaml:3: .* \(\.\./listeners/greet.py\)"):
        load(Path("organism.yaml"), environ={})
    monkeypatch.chdir(project.root)
    with pytest.raises(ConfigError, match=r"^config/organism.yaml:3: .* \(listeners/greet.py\)"):
        load(Path("config/organism.yaml"), environ={})
    path.write_text(path.read_text().replace("gret", "greet"))
    assert load(Path("config/organism.yaml"), environ={}).project == project.root


def test_the_project_directory_can_be_given(project, tmp_path):
    path = tmp_path / "elsewhere.yaml"
    path.write_text("name: demo\nlisteners: [{name: a, handler: listeners.greet.greet, description: d}]\n")
    assert load(path, environ={}, project=project.root).project == project.root


def test_a_missing_file_is_a_finding(project):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml:1: there is no such file"):
        load(project.root / "nowhere.yaml", environ={})


@pytest.mark.parametrize("value", ["5", "true", "text", "{a: b}", "[5]", "[[]]", "", "[{name: []}]"])
def test_invalid_listeners(project, value):
    assert project.errors(f"name: demo\nlisteners: {value}\n")


@pytest.mark.parametrize("text", ["name: demo\n", "name: demo\nlisteners: []\n"])
def test_an_organism_needs_a_listener(project, text):
    (error,) = project.errors(text)
    assert error.endswith("at least one listener is needed")


def test_the_same_organism_loads_twice(project):
    text = "name: demo\nlisteners: [{name: a, handler: listeners.greet.greet, description: d}]\n"
    assert project.load(text).listeners[0].handler is project.load(text).listeners[0].handler


KEYS = [
    "name",
    "listeners",
    "limits",
    "lifespan",
    "include",
    "handler",
    "description",
    "payload_class",
    "agent",
    "peers",
]
KEYS += ["settings", "settings_class", "schema", "deadline", "hops", "idle", "broadcast", "x"]
VALUES = st.sampled_from(
    [
        "greeter",
        "listeners.greet.greet",
        "listeners.greet.Greeting",
        "listeners.greet.Settings",
        "listeners.no.no",
        "os.path",
        "30s",
        "${A}",
        "${file:organism.yaml}",
        "${B}",
        "no",
        "",
        "\x1b",
        "../x",
        "system.todo",
    ]
)
TREES = st.recursive(
    VALUES | st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)
ENTRIES = st.lists(st.dictionaries(st.sampled_from(KEYS), TREES, min_size=2), max_size=3)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    data=st.fixed_dictionaries(
        {"name": VALUES, "listeners": ENTRIES | TREES}, optional={"limits": TREES, "include": TREES}
    )
)
def test_any_tree_is_an_organism_or_has_errors(project, data):
    project.environ["A"] = "hunter22"
    project.errors(yaml.safe_dump(data))
